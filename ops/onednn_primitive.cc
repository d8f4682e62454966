#include "brim/ops/onednn_primitive.h"

#include <string_view>
#include <unordered_map>

namespace brim::onednn {

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// Those on oneDNN's own matrix product pack into memory that they allocate; references are slow.
bool keeps_to_scratch(const char* implementation) {
  const std::string_view name = implementation;
  return name.find("gemm") == std::string_view::npos && name.find("ref") == std::string_view::npos;
}

struct Primitive::Parts {
  char *weight, *scratchpad, *reorder_scratchpad;
  Parts(const Primitive& p, bool reorders, ScratchCursor& cursor)
      : weight(cursor.take<char>(reorders ? bytes(p.wanted()) : 0)),
        scratchpad(cursor.take<char>(bytes(p.scratchpad_))),
        reorder_scratchpad(cursor.take<char>(reorders ? bytes(p.reorder_.scratchpad_desc()) : 0)) {}
  static int64_t bytes(const memory::desc& desc) { return static_cast<int64_t>(desc.get_size()); }
};

void Primitive::plan_reorder() {
  if (wanted() == stored_) return;
  const memory::desc &from = weight_ == 2 ? wanted() : stored_,
                     &to = weight_ == 2 ? stored_ : wanted();
  reorder_ = dnnl::reorder::primitive_desc(engine(), from, engine(), to, attributes());
}

int64_t Primitive::scratch_bytes(bool packed) const {
  ScratchCursor cursor(nullptr);
  Parts(*this, reorder_ && !packed, cursor);
  return cursor.used();
}

int64_t Primitive::packed_bytes() const { return reorder_ ? Parts::bytes(wanted()) : 0; }

void Primitive::pack(const void* weight, void* packed, void* scratch) const {
  compile();
  ScratchCursor cursor(scratch);
  Parts parts(*this, true, cursor);
  dnnl::stream stream(engine());
  reorder(stream, {stored_, const_cast<void*>(weight)}, {wanted(), packed}, parts);
  stream.wait();
}

void Primitive::reorder(dnnl::stream& stream, Place from, Place to, const Parts& parts) const {
  reorder_primitive_.execute(
      stream, {{DNNL_ARG_FROM, memory(from.desc, engine(), from.data)},
               {DNNL_ARG_TO, memory(to.desc, engine(), to.data)},
               {DNNL_ARG_SCRATCHPAD,
                memory(reorder_.scratchpad_desc(), engine(), parts.reorder_scratchpad)}});
}

// Machine code is made at the first run: the meta device needs none.
void Primitive::compile() const {
  std::call_once(compiled_, [this] {
    if (reorder_) reorder_primitive_ = dnnl::reorder(reorder_);
    primitive_ = compile_();
  });
}

void Primitive::run(const void* first, const void* second, const void* bias, void* result,
                    void* scratch, bool packed) const {
  compile();
  const bool reorders = reorder_ && !packed;
  ScratchCursor cursor(scratch);
  Parts parts(*this, reorders, cursor);
  std::array<void*, 3> data{const_cast<void*>(first), const_cast<void*>(second), result};
  void*& weight = data[static_cast<size_t>(weight_)];
  void* stored = weight;
  if (reorders) weight = parts.weight;
  dnnl::stream stream(engine());
  if (reorders && weight_ != 2) reorder(stream, {stored_, stored}, {wanted(), weight}, parts);
  std::unordered_map<int, memory> arguments;
  for (size_t i = 0; i < data.size(); ++i)
    arguments.emplace(arguments_[i].number, memory(arguments_[i].desc, engine(), data[i]));
  if (bias_)
    arguments.emplace(bias_->number, memory(bias_->desc, engine(), const_cast<void*>(bias)));
  arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad_, engine(), parts.scratchpad));
  primitive_.execute(stream, arguments);
  if (reorders && weight_ == 2) reorder(stream, {wanted(), weight}, {stored_, stored}, parts);
  stream.wait();
}

}  // namespace brim::onednn
