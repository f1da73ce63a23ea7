#include "chart_file.h"

#include <fmt/format.h>

#include "pippin/error.h"
#ifdef PIPPIN_HAS_CAIRO
#include <cairo.h>

#include <cstdlib>
#include <memory>
#include <numbers>
#endif

namespace pippin::cli {

namespace fs = std::filesystem;

#ifdef PIPPIN_HAS_CAIRO
namespace {

// Two pixels for each of the chart's, so that text is sharp on today's screens.
constexpr double kScale = 2;

class PngCanvas : public train::Canvas {
  public:
    explicit PngCanvas(train::Extent e)
        : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24,
                                              static_cast<int>(e.width * kScale),
                                              static_cast<int>(e.height * kScale))),
          context_(cairo_create(surface_.get())) {
        cairo_scale(context_.get(), kScale, kScale);
        cairo_set_line_join(context_.get(), CAIRO_LINE_JOIN_ROUND);
        set("#ffffff");
        cairo_paint(context_.get());
    }

    void rect(double x, double y, double w, double h, const std::string& fill) override {
        set(fill);
        cairo_rectangle(context_.get(), x, y, w, h);
        cairo_fill(context_.get());
    }
    void box(double x, double y, double w, double h) override {
        set("#ffffff", 0.9);
        cairo_rectangle(context_.get(), x, y, w, h);
        cairo_fill_preserve(context_.get());
        set("#cccccc");
        cairo_set_line_width(context_.get(), 1);
        cairo_stroke(context_.get());
    }
    void line(train::Point a, train::Point b, const std::string& colour, double width) override {
        stroke({a, b}, colour, width);
    }
    void curve(const std::vector<train::Point>& points, const std::string& colour,
               bool dashed) override {
        const double dashes[] = {6, 4};
        if (dashed) cairo_set_dash(context_.get(), dashes, 2, 0);
        stroke(points, colour, 2);
        cairo_set_dash(context_.get(), nullptr, 0, 0);
    }
    void dot(train::Point at, double radius, const std::string& colour) override {
        set(colour);
        cairo_new_path(context_.get());
        cairo_arc(context_.get(), at.x, at.y, radius, 0, 2 * std::numbers::pi);
        cairo_fill(context_.get());
    }
    void text(double x, double y, const std::string& what, const train::TextStyle& s) override {
        set(s.colour);
        cairo_select_font_face(context_.get(), "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                               s.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
        cairo_set_font_size(context_.get(), s.size);
        cairo_text_extents_t extents;
        cairo_text_extents(context_.get(), what.c_str(), &extents);
        const double share = s.anchor == train::TextStyle::Anchor::Start    ? 0
                             : s.anchor == train::TextStyle::Anchor::Middle ? 0.5
                                                                            : 1;
        cairo_save(context_.get());
        cairo_move_to(context_.get(), x, y);
        if (s.upward) cairo_rotate(context_.get(), -std::numbers::pi / 2);
        cairo_rel_move_to(context_.get(), -share * extents.x_advance, 0);
        cairo_show_text(context_.get(), what.c_str());
        cairo_restore(context_.get());
    }

    std::string png() const {
        std::string bytes;
        const auto take = [](void* to, const unsigned char* data, unsigned n) {
            static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), n);
            return CAIRO_STATUS_SUCCESS;
        };
        const cairo_status_t status =
            cairo_surface_write_to_png_stream(surface_.get(), take, &bytes);
        if (status != CAIRO_STATUS_SUCCESS)
            throw Error(fmt::format("drawing a PNG: {}", cairo_status_to_string(status)));
        return bytes;
    }

  private:
    void set(const std::string& colour, double opacity = 1) {
        const long rgb = std::strtol(colour.c_str() + 1, nullptr, 16);
        cairo_set_source_rgba(context_.get(), static_cast<double>(rgb >> 16 & 255) / 255,
                              static_cast<double>(rgb >> 8 & 255) / 255,
                              static_cast<double>(rgb & 255) / 255, opacity);
    }
    void stroke(const std::vector<train::Point>& points, const std::string& colour, double width) {
        set(colour);
        cairo_set_line_width(context_.get(), width);
        cairo_new_path(context_.get());  // text leaves its end behind
        for (const train::Point& p : points)
            cairo_line_to(context_.get(), p.x, p.y);
        cairo_stroke(context_.get());
    }

    struct Destroy {
        void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
        void operator()(cairo_t* c) const { cairo_destroy(c); }
    };
    std::unique_ptr<cairo_surface_t, Destroy> surface_;
    std::unique_ptr<cairo_t, Destroy> context_;
};

}  // namespace

bool can_write_png() { return true; }
#else
bool can_write_png() { return false; }
#endif

std::string chart_name_fault(const std::string& file) {
    const std::string ending = fs::path(file).extension().string();
    if (ending != ".svg" && ending != ".png")
        return fmt::format("charts are written as .svg or .png, got {}", file);
    if (ending == ".png" && !can_write_png())
        return fmt::format(
            "this build of pippin has no cairo and writes no PNG, got {}; say .svg, or install "
            "cairo (libcairo2-dev) and build again",
            file);
    return "";
}

void write_chart(const fs::path& file, train::Extent extent, const std::string& title,
                 const std::function<void(train::Canvas&)>& draw) {
    if (const std::string fault = chart_name_fault(file.string()); !fault.empty())
        throw ValueError(fault);
#ifdef PIPPIN_HAS_CAIRO
    if (file.extension() == ".png") {
        PngCanvas canvas(extent);
        draw(canvas);
        train::write_text(file, canvas.png());
        return;
    }
#endif
    train::SvgCanvas canvas(extent.width, extent.height, title);
    draw(canvas);
    train::write_text(file, canvas.str());
}

}  // namespace pippin::cli
