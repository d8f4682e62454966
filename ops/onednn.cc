#include "brim/ops/onednn.h"

#include <dnnl_debug.h>

#include <array>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/memory/account.h"

namespace brim::onednn {

void raise_failure(int status, const char* what) {
  if (status == dnnl_out_of_memory) brim::memory::raise_library_shortage(Device::cpu());
  raise<InternalError>("onednn", "{} (status {})", what,
                       dnnl_status2str(static_cast<dnnl_status_t>(status)));
}

namespace {

using dnnl::memory;
using Dims = memory::dims;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

memory::desc plain(const Dims& dims, const Dims& strides) {
  return {dims, memory::data_type::f32, strides};
}

/// The tensors of a convolution; `weight` as brim stores it, `any_weight` for oneDNN to choose.
struct Descriptors {
  memory::desc x, y, weight, any_weight, bias;

  explicit Descriptors(const ConvShape& s)
      : x(plain({s.n, s.c, s.h, s.w}, {s.h * s.w * s.c, 1, s.w * s.c, s.c})),
        y(plain({s.n, s.k, s.p, s.q}, {s.p * s.q * s.k, 1, s.q * s.k, s.k})),
        bias({s.k}, memory::data_type::f32, memory::format_tag::a) {
    int64_t channels = s.group_channels(), outputs = s.group_outputs(), window = s.window();
    Dims dims{outputs, channels, s.r, s.s}, strides{window, 1, s.s * channels, channels};
    if (s.groups > 1) {
      dims.insert(dims.begin(), s.groups);
      strides.insert(strides.begin(), outputs * window);
    }
    weight = plain(dims, strides);
    any_weight = {dims, memory::data_type::f32, memory::format_tag::any};
  }
};

/// Implementations on oneDNN's own matrix product pack into memory that they allocate.
bool keeps_to_scratch(const char* implementation) {
  std::string name = implementation;
  return name.find("gemm") == std::string::npos && name.find("ref") == std::string::npos;
}

/// Moves on to an implementation that is acceptable; false when there is none.
template <class PrimitiveDesc>
bool accept(PrimitiveDesc& desc) {
  while (!keeps_to_scratch(desc.impl_info_str()))
    if (!desc.next_impl()) return false;
  return true;
}

struct Argument {
  int number;
  memory::desc desc;
};

}  // namespace

class Convolution {
 public:
  /// Arguments in the order of `run`; `weight` is the place of the weights among them, 2 where
  /// they are the result.
  template <class Primitive, class PrimitiveDesc>
  static std::unique_ptr<Convolution> make(const PrimitiveDesc& desc, Argument first,
                                           Argument second, Argument result,
                                           std::optional<Argument> bias, int weight,
                                           const memory::desc& stored) {
    auto made = std::make_unique<Convolution>();
    made->name_ = desc.impl_info_str();
    made->arguments_ = {first, second, result};
    made->bias_ = bias;
    made->scratchpad_ = desc.scratchpad_desc();
    made->weight_ = weight;
    made->stored_ = stored;
    if (made->wanted() != stored) {
      const memory::desc &from = weight == 2 ? made->wanted() : stored,
                         &to = weight == 2 ? stored : made->wanted();
      made->reorder_ = dnnl::reorder::primitive_desc(engine(), from, engine(), to, attributes());
    }
    made->compile_ = [desc] { return dnnl::primitive(Primitive(desc)); };
    return made;
  }

  int64_t scratch_bytes() const {
    ScratchCursor cursor(nullptr);
    Parts(*this, cursor);
    return cursor.used();
  }

  void run(const float* first, const float* second, const float* bias, float* result,
           void* scratch) const {
    compile();
    ScratchCursor cursor(scratch);
    Parts parts(*this, cursor);
    std::array<float*, 3> data{const_cast<float*>(first), const_cast<float*>(second), result};
    float*& weight = data[static_cast<size_t>(weight_)];
    float* stored = weight;
    if (reorder_) weight = parts.weight;
    dnnl::stream stream(engine());
    if (reorder_ && weight_ != 2) reorder(stream, {stored_, stored}, {wanted(), weight}, parts);
    std::unordered_map<int, memory> arguments;
    for (size_t i = 0; i < data.size(); ++i)
      arguments.emplace(arguments_[i].number, memory(arguments_[i].desc, engine(), data[i]));
    if (bias_)
      arguments.emplace(bias_->number, memory(bias_->desc, engine(), const_cast<float*>(bias)));
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad_, engine(), parts.scratchpad));
    primitive_.execute(stream, arguments);
    if (reorder_ && weight_ == 2) reorder(stream, {wanted(), weight}, {stored_, stored}, parts);
    stream.wait();
  }

  const char* name() const { return name_.c_str(); }

 private:
  struct Parts {
    float* weight;
    char *scratchpad, *reorder_scratchpad;
    Parts(const Convolution& c, ScratchCursor& cursor)
        : weight(cursor.take<float>(c.reorder_ ? bytes(c.wanted()) / 4 : 0)),
          scratchpad(cursor.take<char>(bytes(c.scratchpad_))),
          reorder_scratchpad(
              cursor.take<char>(c.reorder_ ? bytes(c.reorder_.scratchpad_desc()) : 0)) {}
    static int64_t bytes(const memory::desc& desc) { return static_cast<int64_t>(desc.get_size()); }
  };
  struct Place {
    const memory::desc& desc;
    float* data;
  };

  const memory::desc& wanted() const { return arguments_[static_cast<size_t>(weight_)].desc; }

  void reorder(dnnl::stream& stream, Place from, Place to, const Parts& parts) const {
    reorder_primitive_.execute(
        stream, {{DNNL_ARG_FROM, memory(from.desc, engine(), from.data)},
                 {DNNL_ARG_TO, memory(to.desc, engine(), to.data)},
                 {DNNL_ARG_SCRATCHPAD,
                  memory(reorder_.scratchpad_desc(), engine(), parts.reorder_scratchpad)}});
  }

  /// Machine code is made at the first run: the meta device needs none.
  void compile() const {
    std::call_once(compiled_, [this] {
      if (reorder_) reorder_primitive_ = dnnl::reorder(reorder_);
      primitive_ = compile_();
    });
  }

  std::string name_;
  std::array<Argument, 3> arguments_{};
  std::optional<Argument> bias_;
  memory::desc scratchpad_, stored_;
  int weight_ = 0;
  dnnl::reorder::primitive_desc reorder_;
  std::function<dnnl::primitive()> compile_;
  mutable std::once_flag compiled_;
  mutable dnnl::primitive primitive_, reorder_primitive_;
};

namespace {

using Made = std::unique_ptr<Convolution>;

/// Strides, dilations (0 means dense) and paddings as oneDNN counts them.
struct Window {
  Dims strides, dilations, padding;
  explicit Window(const ConvShape& s)
      : strides{s.stride.h, s.stride.w},
        dilations{s.dilation.h - 1, s.dilation.w - 1},
        padding{s.padding.h, s.padding.w} {}
};

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

// A primitive_desc keeps a pointer to the desc that it was made from, and reads it when asked for
// the next implementation: the desc must outlive `accept`.
dnnl::convolution_forward::desc forward_desc(const ConvShape& shape, bool with_bias) {
  Descriptors d(shape);
  Window w(shape);
  auto kind = dnnl::prop_kind::forward_training;
  using Desc = dnnl::convolution_forward::desc;
  return with_bias ? Desc(kind, kAlgorithm, d.x, d.any_weight, d.bias, d.y, w.strides, w.dilations,
                          w.padding, w.padding)
                   : Desc(kind, kAlgorithm, d.x, d.any_weight, d.y, w.strides, w.dilations,
                          w.padding, w.padding);
}

dnnl::convolution_forward::primitive_desc forward_hint(const ConvShape& shape) {
  return {forward_desc(shape, false), attributes(), engine()};
}

Made make_forward(const ConvShape& shape, bool with_bias) {
  Descriptors d(shape);
  auto forward = forward_desc(shape, with_bias);
  dnnl::convolution_forward::primitive_desc desc(forward, attributes(), engine());
  if (!accept(desc)) return nullptr;
  std::optional<Argument> bias;
  if (with_bias) bias = {DNNL_ARG_BIAS, d.bias};
  return Convolution::make<dnnl::convolution_forward>(desc, {DNNL_ARG_SRC, d.x},
                                                      {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                      {DNNL_ARG_DST, d.y}, bias, 1, d.weight);
}

Made make_backward_data(const ConvShape& shape) {
  Descriptors d(shape);
  Window w(shape);
  auto hint = forward_hint(shape);
  dnnl::convolution_backward_data::desc backward(kAlgorithm, d.x, d.any_weight, d.y, w.strides,
                                                 w.dilations, w.padding, w.padding);
  dnnl::convolution_backward_data::primitive_desc desc(backward, attributes(), engine(), hint);
  if (!accept(desc)) return nullptr;
  return Convolution::make<dnnl::convolution_backward_data>(
      desc, {DNNL_ARG_DIFF_DST, d.y}, {DNNL_ARG_WEIGHTS, desc.weights_desc()},
      {DNNL_ARG_DIFF_SRC, d.x}, {}, 1, d.weight);
}

Made make_backward_weight(const ConvShape& shape) {
  Descriptors d(shape);
  Window w(shape);
  auto hint = forward_hint(shape);
  dnnl::convolution_backward_weights::desc backward(kAlgorithm, d.x, d.any_weight, d.y, w.strides,
                                                    w.dilations, w.padding, w.padding);
  dnnl::convolution_backward_weights::primitive_desc desc(backward, attributes(), engine(), hint);
  if (!accept(desc)) return nullptr;
  return Convolution::make<dnnl::convolution_backward_weights>(
      desc, {DNNL_ARG_SRC, d.x}, {DNNL_ARG_DIFF_DST, d.y},
      {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}, {}, 2, d.weight);
}

Made make(const ConvShape& shape, Pass pass, bool with_bias) {
  try {
    switch (pass) {
      case Pass::forward:
        return make_forward(shape, with_bias);
      case Pass::backward_data:
        return make_backward_data(shape);
      case Pass::backward_weight:
        return make_backward_weight(shape);
    }
  } catch (const dnnl::error& error) {
    // A shape that oneDNN refuses is not an error of the caller's. Any other failure may pass, and
    // must not decide for good how the shape is computed.
    if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments)
      raise_failure(error.status, error.what());
  } catch (const std::bad_alloc& error) {
    raise_failure(dnnl_out_of_memory, error.what());
  }
  return nullptr;
}

using Key = std::array<int64_t, 20>;

Key key_of(const ConvShape& s, Pass pass, bool with_bias) {
  return {s.n, s.h, s.w, s.c, s.k, s.r, s.s, s.p, s.q, s.stride.h, s.stride.w, s.padding.h,
          s.padding.w, s.dilation.h, s.dilation.w, s.groups, static_cast<int64_t>(pass), with_bias,
          // Work is divided, and scratch sized, when the primitive is made.
          num_threads()};
}

}  // namespace

const Convolution* find_convolution(const ConvShape& shape, Pass pass, bool with_bias) {
  static std::mutex mutex;
  static auto* cache = new std::map<Key, Made>;
  Key key = key_of(shape, pass, with_bias);
  std::lock_guard lock(mutex);
  auto found = cache->find(key);
  if (found == cache->end()) found = cache->emplace(key, make(shape, pass, with_bias)).first;
  return found->second.get();
}

int64_t scratch_bytes(const Convolution& convolution) { return convolution.scratch_bytes(); }

void run(const Convolution& convolution, const float* first, const float* second, const float* bias,
         float* result, void* scratch) {
  NoParallelScope::check_absent();
  try {
    convolution.run(first, second, bias, result, scratch);
  } catch (const dnnl::error& error) {
    raise_failure(error.status, error.what());
  } catch (const std::bad_alloc& error) {
    raise_failure(dnnl_out_of_memory, error.what());
  }
}

const char* implementation(const Convolution& convolution) { return convolution.name(); }

}  // namespace brim::onednn
