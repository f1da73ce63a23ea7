// The public side of the recorder: Profile, its table, ranges of the user's.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "pippin/error.h"
#include "pippin/profiler.h"
#include "profile/recorder.h"
#include "profile/trace.h"
#include "runtime/queue.h"

namespace pippin {

using recording::Category;

namespace {

std::string shortened(const std::string& text, std::size_t length) {
    return text.size() <= length ? text : text.substr(0, length - 3) + "...";
}

ProfileTable table_of(const recording::Recording& r, bool by_shape) {
    ProfileTable t;
    t.wall_ms = static_cast<double>(r.nanoseconds()) * 1e-6;
    std::map<std::tuple<Category, std::string, std::string, std::string>, ProfileRow> rows;
    for (const auto& s : r.sums()) {
        const recording::Work& w = *s.work;
        if (w.category == Category::Part) continue;
        ProfileRow& row = rows[{w.category, w.name, w.kind, by_shape ? w.shapes : std::string()}];
        row.name = w.name;
        row.launch = w.category == Category::Launch;
        row.kind = row.launch ? w.kind : name_of(w.category);
        if (by_shape) row.shapes = w.shapes;
        row.count += s.count;
        row.total_ms += static_cast<double>(s.nanoseconds) * 1e-6;
        row.bytes += s.count * w.bytes;
        row.flops += s.count * w.flops;
        if (row.launch) t.launch_ms += static_cast<double>(s.nanoseconds) * 1e-6;
    }
    for (auto& [key, row] : rows) {
        if (row.launch && t.launch_ms > 0) row.share = row.total_ms / t.launch_ms;
        t.rows.push_back(std::move(row));
    }
    std::stable_sort(t.rows.begin(), t.rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
        return std::tuple(!a.launch, -a.total_ms) < std::tuple(!b.launch, -b.total_ms);
    });
    return t;
}

}  // namespace

std::string ProfileTable::str(std::size_t row_limit) const {
    std::string out =
        fmt::format("{:>7}  {:>10}  {:>9}  {:>6}  {:>8}  {:>8}  {:14}  {}\n", "count", "total ms",
                    "mean ms", "share", "GFLOP/s", "GB/s", "kind", "launch");
    std::size_t shown = 0, ranges = 0, launches = 0;
    for (const ProfileRow& r : rows) {
        if (!r.launch) continue;
        ++launches;
        if (shown == row_limit) continue;
        ++shown;
        out += fmt::format("{:>7}  {:>10.3f}  {:>9.4f}  {:>5.1f}%  {:>8.1f}  {:>8.1f}  {:14}  {}",
                           r.count, r.total_ms, r.mean_ms(), 100 * r.share, r.gflop_per_s(),
                           r.gb_per_s(), r.kind, shortened(r.name, 60));
        out += r.shapes.empty() ? "\n" : "  " + r.shapes + "\n";
    }
    if (shown < launches) out += fmt::format("    ... and {} more\n", launches - shown);
    if (rows.size() > launches)
        out += fmt::format("{:>7}  {:>10}  {:>9}  {:14}  {}\n", "count", "total ms", "mean ms",
                           "kind", "range on the processor");
    for (const ProfileRow& r : rows) {
        if (r.launch || ranges == row_limit) continue;
        ++ranges;
        out += fmt::format("{:>7}  {:>10.3f}  {:>9.4f}  {:14}  {}\n", r.count, r.total_ms,
                           r.mean_ms(), r.kind, r.name);
    }
    if (ranges < rows.size() - launches)
        out += fmt::format("    ... and {} more\n", rows.size() - launches - ranges);
    out += fmt::format("{:.3f} ms in launches, {:.3f} ms from start to stop\n", launch_ms, wall_ms);
    return out;
}

struct Profile::Impl {
    ProfileOptions options;
    recording::Recording recording;
};

Profile::Profile(ProfileOptions options) : impl_(std::make_unique<Impl>()) {
    if (!options.trace.empty()) {
        const auto folder = std::filesystem::absolute(options.trace).parent_path();
        if (!std::filesystem::is_directory(folder))
            throw FileError(fmt::format("profile: cannot write {}: there is no folder {}",
                                        options.trace.string(), folder.string()));
    }
    impl_->options = std::move(options);
    impl_->options.trace = recording::expanded(impl_->options.trace.string());
    runtime::wait_until_idle();
    impl_->recording.start();
}

Profile::Profile(Profile&&) noexcept = default;
Profile& Profile::operator=(Profile&& o) noexcept {
    Profile old(std::move(*this));  // stops it
    impl_ = std::move(o.impl_);
    return *this;
}

Profile::~Profile() {
    if (!impl_) return;
    try {
        stop();
    } catch (const std::exception& e) {
        fmt::print(stderr, "pippin: {}\n", e.what());
    }
}

void Profile::stop() {
    if (!impl_->recording.is_running()) return;
    runtime::wait_until_idle();
    impl_->recording.stop();
    if (!impl_->options.trace.empty()) export_chrome_trace(impl_->options.trace);
}

ProfileTable Profile::key_averages(bool group_by_input_shape) const {
    return table_of(impl_->recording, group_by_input_shape);
}

void Profile::export_chrome_trace(const std::filesystem::path& path) const {
    impl_->recording.write_trace(path.string());
}

RecordFunction::RecordFunction(std::string_view name) {
    if (!recording::on()) return;
    work_ = recording::named(Category::User, name);
    begin_ = recording::now();
}

RecordFunction::~RecordFunction() {
    if (!work_) return;
    recording::add({begin_, recording::now(), recording::thread_row(),
                    std::static_pointer_cast<const recording::Work>(work_)});
}

bool flush_profile() {
    const recording::Recording* r = recording::of_environment();
    if (!r) return false;
    runtime::wait_until_idle();
    if (r->is_empty()) return false;
    recording::write_environment_trace();
    return true;
}

}  // namespace pippin
