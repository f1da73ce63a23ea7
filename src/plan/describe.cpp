#include "plan/describe.h"

#include <fmt/format.h>

#include <string_view>

#include "graph/ops/records_attention.h"

namespace pippin::plan {

namespace ops = graph::ops;

namespace {

const char* form_name(Form f) {
    return f == Form::Map ? "map" : f == Form::RowReduce ? "reduce rows" : "reduce columns";
}

bool is_conv(const graph::OpRecord* op) {
    return op == &ops::kConv2d || op == &ops::kConv2dGradInput || op == &ops::kConv2dGradWeight;
}

}  // namespace

std::string form_text(const Program& p) {
    std::string dims;
    for (int d = 0; d < p.rank; ++d)
        dims += fmt::format("{}{}",
                            d == 0                                ? ""
                            : d == p.split && p.form != Form::Map ? " | "
                                                                  : " ",
                            p.extents[static_cast<std::size_t>(d)]);
    return fmt::format("{} [{}]", form_name(p.form), dims);
}

std::string kind_of(const Launch& l) {
    if (!l.heavy) return form_name(l.program->program.form);
    const graph::OpRecord* op = l.heavy->op;
    if (is_conv(op)) return "conv";
    if (op == &ops::kMatmul) return "matmul";
    if (ops::is_attention(op)) return "attention";
    if (std::string_view(op->name).find("pool") != std::string_view::npos) return "pool";
    return op->name;
}

std::string shapes_of(const Launch& l) {
    if (!l.heavy) {
        std::string out = form_text(l.program->program);
        if (l.program->segments.size() > 1)
            out += fmt::format(" and {} more", l.program->segments.size() - 1);
        return out;
    }
    std::string out;
    for (const Operand& o : l.heavy->operands)
        out += o.shape.str() + " ";
    out += "-> " + l.heavy->output.shape.str();
    if (is_conv(l.heavy->op)) {
        const graph::ConvAttrs a = ops::conv_attrs(l.heavy->attrs);
        if (a.stride[0] != 1 || a.stride[1] != 1)
            out += fmt::format(" stride {}x{}", a.stride[0], a.stride[1]);
        if (a.dilation[0] != 1 || a.dilation[1] != 1)
            out += fmt::format(" dilation {}x{}", a.dilation[0], a.dilation[1]);
        if (a.groups != 1) out += fmt::format(" groups {}", a.groups);
    }
    if (l.heavy->output.dtype != DType::Float32)
        out += fmt::format(" {}", pippin::name_of(l.heavy->output.dtype));
    return out;
}

}  // namespace pippin::plan
