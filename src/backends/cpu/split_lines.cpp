#include "backends/cpu/split_lines.h"

namespace pippin::cpu::split {

namespace {

using std::int64_t;

// Where a place of the window lies in x, from the pixel on that y's pixel stands for.
int64_t place(const ConvGeometry& g, int d, int64_t k) { return k * g.dilation[d] - g.pad[d]; }
// Pixels of its phase on.
int64_t shift(const ConvGeometry& g, int d, int64_t k) {
    const int64_t p = place(g, d, k), s = g.stride[d];
    return p >= 0 ? p / s : -((s - 1 - p) / s);
}
int64_t phase(const ConvGeometry& g, int d, int64_t k) {
    return place(g, d, k) - shift(g, d, k) * g.stride[d];
}

// So many that what a window sees beside a line is part of no other line.
int64_t extent_with_gap(const ConvGeometry& g, int d, int64_t x, int64_t y, int64_t k) {
    const int64_t pixels = (x + g.stride[d] - 1) / g.stride[d];
    return std::max({pixels, y, pixels - shift(g, d, 0), y + shift(g, d, k - 1)});
}

}  // namespace

Lines::Lines(const ConvGeometry& g)
    : n(g.n),
      x{g.h, g.w},
      y{g.oh, g.ow},
      stride{g.stride[0], g.stride[1]},
      line(extent_with_gap(g, 1, g.w, g.ow, g.kw)),
      image(extent_with_gap(g, 0, g.h, g.oh, g.kh) * line) {
    std::vector<Phase> unseen;
    for (int64_t fy = 0; fy < stride[0]; ++fy)
        for (int64_t fx = 0; fx < stride[1]; ++fx) {
            const std::size_t before = taps.size();
            for (int64_t ky = 0; ky < g.kh; ++ky)
                for (int64_t kx = 0; kx < g.kw; ++kx) {
                    if (phase(g, 0, ky) != fy || phase(g, 1, kx) != fx) continue;
                    const int64_t on = shift(g, 0, ky) * line + shift(g, 1, kx);
                    taps.push_back({seen_phases, ky * g.kw + kx, on});
                    around = std::max(around, std::abs(on));
                }
            if (taps.size() == before) {
                unseen.push_back({fy, fx});
                continue;
            }
            phases.push_back({fy, fx});
            ++seen_phases;
        }
    phases.insert(phases.end(), unseen.begin(), unseen.end());
}

void Lines::fill(int64_t first, int64_t count, const int64_t (&extent)[2], int64_t step_y,
                 int64_t step_x, Phase at, std::int32_t* to) const {
    std::fill(to, to + count, -1);
    const int64_t end = std::min(first + count, rows());
    for (int64_t q = std::max(first, int64_t{0}); q < end;) {
        const int64_t i = q / image, py = q % image / line * step_y + at.y, column = q % line;
        const int64_t next = std::min(end, q - column + line);
        if (py < extent[0]) {
            int64_t px = column * step_x + at.x;
            const int64_t start = (i * extent[0] + py) * extent[1];
            for (; q < next && px < extent[1]; ++q, px += step_x)
                to[q - first] = static_cast<std::int32_t>(start + px);
        }
        q = next;
    }
}

}  // namespace pippin::cpu::split
