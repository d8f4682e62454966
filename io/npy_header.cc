#include "brim/io/npy_header.h"

#include <algorithm>
#include <array>
#include <optional>

#include "brim/io/plain_text.h"

namespace brim::io {
namespace {

constexpr const char* kTag = kNpyTag;

struct NamedDtype {
  std::string_view descr;
  Dtype dtype;
};
constexpr std::array<NamedDtype, 8> kNamedDtypes{{{"<f4", Dtype::float32},
                                                  {"<f8", Dtype::float64},
                                                  {"<f2", Dtype::float16},
                                                  {"|i1", Dtype::int8},
                                                  {"|u1", Dtype::uint8},
                                                  {"<i4", Dtype::int32},
                                                  {"<i8", Dtype::int64},
                                                  {"|b1", Dtype::boolean}}};

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader run() {
    take('{');
    while (!take_if('}')) {
      entry();
      if (take_if('}')) break;
      take(',');
    }
    skip_blanks();
    if (at_ != text_.size()) refuse("something after its end");
    if (!dtype_ || !fortran_order_ || !shape_) refuse("no 'descr', 'fortran_order' or 'shape'");
    return {*dtype_, *fortran_order_, *shape_};
  }

 private:
  void entry() {
    std::string_view key = quoted();
    take(':');
    if (key == "descr" && !dtype_)
      dtype_ = descr();
    else if (key == "fortran_order" && !fortran_order_)
      fortran_order_ = boolean();
    else if (key == "shape" && !shape_)
      shape_ = tuple();
    else
      refuse(fmt::format("the entry '{}', unknown or twice", is_plain_text(key) ? key : "?"));
  }

  Dtype descr() {
    skip_blanks();
    if (peek() == '[') refuse("elements that are structures; save each field by itself");
    std::string_view name = quoted();
    auto known = std::ranges::find(kNamedDtypes, name, &NamedDtype::descr);
    if (known != kNamedDtypes.end()) return known->dtype;
    if (name.find('O') != std::string_view::npos)
      refuse("Python objects as elements, which only Python can read; save numbers");
    if (name.starts_with('>'))
      refuse(fmt::format("big-endian elements '{}'; save x.astype('<' + x.dtype.str[1:])",
                         is_plain_text(name) ? name : "?"));
    refuse(fmt::format("elements '{}', which are not known", is_plain_text(name) ? name : "?"));
  }

  bool boolean() {
    skip_blanks();
    for (std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    refuse("a 'fortran_order' that is neither True nor False");
  }

  Shape tuple() {
    Shape shape;
    bool comma = true;
    take('(');
    while (!take_if(')')) {
      if (!comma) refuse("a shape without commas");
      if (shape.size() == Shape::kMax) refuse(fmt::format("more than {} axes", int{Shape::kMax}));
      shape.push_back(number());
      comma = take_if(',');
    }
    if (shape.size() == 1 && !comma) refuse("a shape that is a number, not a tuple");
    return shape;
  }

  int64_t number() {
    skip_blanks();
    size_t begin = at_;
    int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, peek() - '0', &value))
        refuse("a size beyond 2^63 - 1");
    if (at_ == begin) refuse("a size that is not a whole number from 0 on");
    return value;
  }

  // No escapes: no known name has one.
  std::string_view quoted() {
    skip_blanks();
    char quote = peek();
    if (quote != '\'' && quote != '"') refuse("something else where a string belongs");
    size_t begin = ++at_, end = text_.find(quote, begin);
    if (end == std::string_view::npos) refuse("a string without an end");
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  void take(char wanted) {
    if (!take_if(wanted)) refuse(fmt::format("no '{}' at byte {}", wanted, at_));
  }
  bool take_if(char wanted) {
    skip_blanks();
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\n') ++at_;
  }
  /// 0 at the end, which no token starts with.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  [[noreturn]] void refuse(std::string_view what) const {
    raise<FileError>(kTag, "'{}': the header has {}", path_, what);
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  std::optional<Dtype> dtype_;
  std::optional<bool> fortran_order_;
  std::optional<Shape> shape_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& path) {
  return Parser(text, path).run();
}

std::string format_npy_header(const NpyHeader& header) {
  auto known = std::ranges::find(kNamedDtypes, header.dtype, &NamedDtype::dtype);
  if (known == kNamedDtypes.end())
    raise<DtypeError>(kTag, "NumPy has no {}; convert to float32 first", header.dtype);
  std::string sizes;
  for (int64_t n : header.shape) sizes += fmt::format("{}, ", n);
  if (header.shape.size() > 1) sizes.resize(sizes.size() - 2);  // (3,) but (3, 4)
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", known->descr,
                     header.fortran_order ? "True" : "False", sizes);
}

}  // namespace brim::io
