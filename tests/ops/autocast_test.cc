// In an `Autocast` scope each op runs in the dtype that the table says, parameters and their
// gradients stay float32, and nothing else changes: the bits are those of casts written by hand,
// whatever backward keeps or makes again.
#include "brim/ops/autocast.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <optional>

#include "brim/autograd/backward.h"
#include "brim/autograd/checkpoint.h"
#include "brim/autograd/free_recomputation.h"
#include "brim/autograd/planned_recomputation.h"
#include "brim/memory/account.h"
#include "brim/ops/ops.h"

using namespace brim;
using autograd::Fate;

namespace {

/// Until it ends, nothing can be written to the standard error.
class FullErrors {
 public:
  FullErrors() {
    const int full = ::open("/dev/full", O_WRONLY);
    ::dup2(full, STDERR_FILENO);
    ::close(full);
  }
  ~FullErrors() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  FullErrors(const FullErrors&) = delete;
  FullErrors& operator=(const FullErrors&) = delete;

 private:
  const int before_ = ::dup(STDERR_FILENO);
};

constexpr Dtype kHalves[] = {Dtype::bfloat16, Dtype::float16};
using Values = std::vector<float>;

Tensor numbers(const Shape& shape, uint64_t key) { return uniform(shape, -1, 1, {key}); }

/// Counts the casts that run, forward or again, while it lives.
struct Casts final : autograd::OpObserver {
  void ran(const autograd::OpEvent& event) override {
    if (std::string_view(event.op.name()) != "cast") return;
    ++(event.phase == autograd::Phase::forward     ? forward
       : event.phase == autograd::Phase::recompute ? again
                                                   : backward);
  }
  int forward = 0, backward = 0, again = 0;
};

Dtype dtype_in(Dtype scope, const std::function<Tensor()>& op) {
  Autocast autocast(scope);
  return op().dtype();
}

/// An op of a user: the sum of its inputs, which it wants of one dtype.
class Plus final : public autograd::Op {
 public:
  explicit Plus(const char* name) : name_(name) {}
  const char* name() const override { return name_; }
  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    CHECK(in[0].dtype() == in[1].dtype());
    return {add(in[0].detach(), in[1].detach())};
  }
  Tensors backward(autograd::BackwardCall& call) const override {
    return {call.grad(), call.grad()};
  }

 private:
  const char* name_;
};

Tensor plus(const char* name, Tensor a, Tensor b) {
  return autograd::apply_one(std::make_shared<Plus>(name), {std::move(a), std::move(b)},
                             Where::current());
}

}  // namespace

TEST_CASE("autocast: each op runs in the dtype of its rule") {
  const Tensor x = numbers({2, 4, 4, 8}, 1), w = numbers({8, 3, 3, 8}, 2),
               flat = numbers({4, 8}, 3), square = numbers({8, 8}, 4), ones8 = ones({8}),
               zeros8 = zeros({8});
  const Tensor labels = zeros({4}, {.dtype = Dtype::int64});
  for (Dtype half : kHalves) {
    const Tensor low = cast(flat, half);
    auto check = [&](Dtype expected, const std::function<Tensor()>& op) {
      CHECK(to_string(dtype_in(half, op)) == to_string(expected));
    };
    const Dtype wide = Dtype::float32;
    check(half, [&] { return conv2d(x, w, {}, {.padding = 1}); });
    check(half, [&] { return linear(flat, square, zeros8); });
    check(half, [&] { return matmul(flat, square); });
    check(wide, [&] { return cross_entropy(low, labels); });
    check(wide, [&] { return sum(low); });
    check(wide, [&] { return exp(low); });
    check(wide, [&] { return add(low, flat); });
    check(half, [&] { return add(low, low); });
    check(half, [&] { return relu(low); });
    check(wide, [&] { return relu(flat); });
    check(half, [&] { return softmax(low, -1); });
    check(half, [&] { return batch_norm(low, ones8, zeros8, {}, {}); });
    check(half, [&] { return batch_norm(low, ones8, zeros8, {}, {}, {.residual = flat}); });
    check(half, [&] { return scaled_dot_product_attention(flat, flat, flat); });
    check(half, [&] { return scaled_dot_product_attention(flat, flat, flat, {.causal = true}); });
    const Tensor exact = cast(flat, Dtype::float64);
    check(Dtype::float64, [&] { return matmul(exact, cast(square, Dtype::float64)); });
  }
  Autocast autocast(Dtype::bfloat16);
  CHECK(add(cast(flat, Dtype::float16), cast(flat, Dtype::bfloat16)).dtype() == Dtype::float32);
}

TEST_CASE("autocast: the bits of casts by hand; parameters and their gradients stay float32") {
  for (Dtype half : kHalves) {
    auto train = [&](bool by_hand) {
      Tensor w = numbers({6, 8}, 1).set_requires_grad(), b = numbers({6}, 2).set_requires_grad();
      const Tensor x = numbers({4, 8}, 3), labels = zeros({4}, {.dtype = Dtype::int64});
      Tensor loss;
      if (by_hand) {
        Tensor y = linear(cast(x, half), cast(w, half), cast(b, half));
        loss = cross_entropy(cast(tanh(y), Dtype::float32), labels);
      } else {
        Autocast autocast(half);
        loss = cross_entropy(tanh(linear(x, w, b)), labels);
      }
      backward(loss);
      CHECK(w.grad().dtype() == Dtype::float32);
      CHECK(w.dtype() == Dtype::float32);
      return std::tuple(loss.to_vector<float>(), w.grad().to_vector<float>(),
                        b.grad().to_vector<float>());
    };
    CHECK(train(true) == train(false));
  }
}

TEST_CASE("autocast: scopes nest, with float32 for off, and refuse another half type") {
  const Tensor a = numbers({4, 4}, 1);
  CHECK(autocast_dtype() == Dtype::float32);
  {
    Autocast outer(Dtype::bfloat16);
    CHECK(matmul(a, a).dtype() == Dtype::bfloat16);
    {
      Autocast off(Dtype::float32);
      CHECK(autocast_dtype() == Dtype::float32);
      CHECK(matmul(a, a).dtype() == Dtype::float32);
      Autocast other(Dtype::float16);
      CHECK(matmul(a, a).dtype() == Dtype::float16);
    }
    Autocast again(Dtype::bfloat16);
    CHECK(matmul(a, a).dtype() == Dtype::bfloat16);
    CHECK_THROWS_WITH_AS(Autocast(Dtype::float16),
                         "autocast: expected bfloat16 as in the scope around this one, got "
                         "float16: between the two, switch it off with Autocast(Dtype::float32) "
                         "and cast by hand",
                         DtypeError);
    CHECK(autocast_dtype() == Dtype::bfloat16);
  }
  CHECK(matmul(a, a).dtype() == Dtype::float32);
  CHECK_THROWS_WITH_AS(Autocast(Dtype::int8),
                       "autocast: expected float16, bfloat16 or float32, got int8", DtypeError);
}

TEST_CASE("autocast: a parameter that is used twice is cast once, whatever backward keeps") {
  struct Result {
    Values gradient;
    int casts = 0;
  };
  auto run = [](autograd::SavePolicy* policy) {
    Tensor w = numbers({8, 8}, 1).set_requires_grad();
    const Tensor x = numbers({4, 8}, 2);
    Casts casts;
    Tensor loss;
    {
      autograd::SavePolicyScope scope(policy);
      Autocast autocast(Dtype::bfloat16);
      Tensor y = matmul(x, w);  // x is no parameter: cast for each use
      {
        Autocast inner(Dtype::bfloat16);
        y = matmul(tanh(y), w);
      }
      loss = sum(matmul(tanh(y), w));
    }
    const int forward = casts.forward;
    backward(loss);
    CHECK(casts.backward == 2);  // of w once, and of what is summed
    return Result{w.grad().to_vector<float>(), forward};
  };
  const Result kept = run(nullptr);
  CHECK(kept.casts == 3);  // of w, x and the last product
  autograd::FreeRecomputation free;
  autograd::PlannedRecomputation all(
      std::make_shared<autograd::Fates>(autograd::Fates(16, std::vector<Fate>{Fate::remake})));
  autograd::SegmentedRecomputation segments(3, 3);
  for (autograd::SavePolicy* policy :
       {static_cast<autograd::SavePolicy*>(&free), static_cast<autograd::SavePolicy*>(&all),
        static_cast<autograd::SavePolicy*>(&segments)}) {
    const Result result = run(policy);
    CHECK(result.casts == kept.casts);
    CHECK(result.gradient == kept.gradient);
  }
}

TEST_CASE("autocast: in a function under checkpoint the same casts, and the same bits") {
  auto run = [](bool checkpointed) {
    Tensor w = numbers({8, 8}, 1).set_requires_grad(), x = numbers({4, 8}, 2).set_requires_grad();
    Tensor loss;
    {
      Autocast autocast(Dtype::bfloat16);
      auto block = [&](const Tensor& in) { return tanh(matmul(tanh(matmul(in, w)), w)); };
      Tensor y = checkpointed ? autograd::checkpoint(block, x) : block(x);
      loss = sum(checkpointed ? autograd::checkpoint(block, y) : block(y));
    }
    backward(loss);
    return std::pair(w.grad().to_vector<float>(), x.grad().to_vector<float>());
  };
  CHECK(run(false) == run(true));
}

TEST_CASE("autocast: two losses of one scope may go backward one after the other, or again") {
  autograd::FreeRecomputation free;
  for (autograd::SavePolicy* policy :
       {static_cast<autograd::SavePolicy*>(nullptr), static_cast<autograd::SavePolicy*>(&free)}) {
    autograd::SavePolicyScope saving(policy);
    Tensor w = numbers({8, 8}, 1).set_requires_grad(), x = numbers({4, 8}, 2).set_requires_grad();
    auto gradient_of = [&](bool together) {
      w.set_grad(Tensor());
      Autocast autocast(Dtype::bfloat16);
      Tensor a = sum(matmul(x, w)), b = sum(tanh(matmul(x, w)));
      if (together) {
        backward(add(a, b));
      } else {
        backward(a);
        backward(b);
        Tensor again = sum(matmul(x, w));  // a and b are held still
        backward(again, {.grad = zeros({})});
      }
      return w.grad().to_vector<float>();
    };
    const Values together = gradient_of(true), apart = gradient_of(false);
    for (size_t i = 0; i < apart.size(); ++i)  // added up in float32, and in halves
      CHECK(apart[i] == doctest::Approx(together[i]).epsilon(0.01));
  }
}

TEST_CASE("autocast: attention takes operands and a mask of several dtypes") {
  const Tensor wide = numbers({4, 8}, 1), low = cast(wide, Dtype::bfloat16);
  const Tensor mask = zeros({4, 4});
  Autocast autocast(Dtype::bfloat16);
  const Tensor y = scaled_dot_product_attention(wide, low, low, {.mask = mask});
  CHECK(y.dtype() == Dtype::bfloat16);
  CHECK(y.to_vector<float>() == scaled_dot_product_attention(low, low, low).to_vector<float>());
}

TEST_CASE("autocast: a parameter that changed is cast again") {
  Tensor w = ones({2, 2}).set_requires_grad();
  const Tensor x = ones({1, 2});
  Autocast autocast(Dtype::bfloat16);
  const Tensor before = matmul(x, w);
  fill(w, 3);
  CHECK(matmul(x, w).to_vector<float>() == Values{6, 6});
  CHECK(before.to_vector<float>() == Values{2, 2});
}

TEST_CASE("autocast: free recomputation holds no cast of a parameter") {
  auto account = memory::account(Device::cpu());
  autograd::FreeRecomputation free;
  autograd::SavePolicyScope policy(&free);
  Tensor w = numbers({64, 64}, 1).set_requires_grad(), v = numbers({64, 64}, 2).set_requires_grad();
  const Tensor x = numbers({1, 64}, 3);
  const int64_t before = account->stats().live;
  Tensor y;
  {
    Autocast autocast(Dtype::bfloat16);
    y = matmul(matmul(x, w), v);
  }
  // Products and x, in halves; not 8 KiB for each of w and v.
  CHECK(account->stats().live - before < 4096);
  backward(y, {.grad = ones(y.shape(), {.dtype = y.dtype()})});
  CHECK(v.grad().defined());
}

TEST_CASE("autocast: an op without a rule takes the widest, one with a rule what it says") {
  const Tensor wide = ones({2}), low = cast(wide, Dtype::bfloat16);
  CHECK_FALSE(autocast_rule("test_plus_unknown").has_value());
  Autocast autocast(Dtype::bfloat16);
  CHECK(plus("test_plus_unknown", low, wide).dtype() == Dtype::float32);
  CHECK(autocast_rule("test_plus_unknown") == AutocastRule::widest);  // and was said, once
  {
    const FullErrors full;
    CHECK(plus("test_plus_unsaid", low, wide).dtype() == Dtype::float32);
  }
  CHECK(set_autocast_rule("test_plus_low", AutocastRule::low));
  CHECK(plus("test_plus_low", low, wide).dtype() == Dtype::bfloat16);
}
