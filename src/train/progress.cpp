// The progress bar.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pippin/stats.h"
#include "pippin/train.h"
#include "train/distributed.h"
#include "train/terminal.h"

namespace pippin::train {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};

std::string duration(double seconds) {
    const auto s = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
    if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string rate(double images_per_s) {
    return images_per_s >= 100 ? fmt::format("{:.0f}", images_per_s)
                               : fmt::format("{:.1f}", images_per_s);
}

std::string memory(std::int64_t bytes) {
    const double mib = static_cast<double>(bytes) / (1 << 20);
    return mib < 1024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string bar(double share, int cells) {
    const int full = static_cast<int>(share * cells);
    const bool utf8 = terminal_speaks_utf8();
    std::string out;
    for (int i = 0; i < cells; ++i)
        out += i < full ? (utf8 ? "━" : "#") : (utf8 ? "\033[90m─\033[0m" : "-");
    return out;
}

}  // namespace

ProgressBar::ProgressBar(Options o)
    : o_(o), terminal_(o.terminal ? *o.terminal : is_terminal(o.out)) {
    if (o.images_per_epoch < 1)
        throw ValueError(fmt::format("ProgressBar: images_per_epoch must be positive, got {}",
                                     o.images_per_epoch));
}

void ProgressBar::begin_epoch() {
    ++epoch_;
    done_ = lines_drawn_ = 0;
    started_ = Clock::now();
    running_ = true;
    drawn_ = started_ - kRedraw;  // the first update shows something
}

double ProgressBar::seconds() const {
    return seconds_before_ +
           (running_ ? std::chrono::duration<double>(Clock::now() - started_).count() : 0);
}

double ProgressBar::images_per_s() const {
    const double s = seconds();
    return s > 0 ? static_cast<double>(done_before_ + done_) / s : 0;
}

void ProgressBar::update(std::int64_t images, const std::function<double()>& loss) {
    if (!running_) begin_epoch();
    done_ += images * dist::place_so_far().size;
    bool due = false;
    if (o_.quiet) {
    } else if (terminal_) {
        due = Clock::now() - drawn_ >= kRedraw;
    } else {
        // The line that says 100% is end_epoch's.
        const std::int64_t line = done_ * o_.lines_per_epoch / o_.images_per_epoch;
        due = line > lines_drawn_ && done_ < o_.images_per_epoch;
    }
    if (!due) {
        read_loss_ = loss;  // end_epoch may want the last one
        return;
    }
    read_loss_ = nullptr;
    loss_ = loss();
    draw(false, "");
}

void ProgressBar::update(std::int64_t images, const Tensor& loss) {
    update(images, [loss] { return loss.item<double>(); });
}

void ProgressBar::end_epoch(const std::string& note, std::optional<double> loss) {
    if (!running_) return;
    if (loss)
        loss_ = *loss;
    else if (read_loss_)
        loss_ = read_loss_();  // also waits for the work that was only submitted
    read_loss_ = nullptr;
    draw(true, note);
    seconds_before_ = seconds();
    running_ = false;
    done_before_ += done_;
    done_ = 0;
}

void ProgressBar::draw(bool last, const std::string& note) {
    if (o_.quiet || (!terminal_ && o_.lines_per_epoch == 0)) return;
    if (dist::place_so_far().rank != 0) return;
    drawn_ = Clock::now();
    lines_drawn_ = done_ * o_.lines_per_epoch / o_.images_per_epoch;
    const double share =
        std::min(1.0, static_cast<double>(done_) / static_cast<double>(o_.images_per_epoch));
    const double speed = images_per_s();
    const double left = static_cast<double>(o_.epochs) * static_cast<double>(o_.images_per_epoch) -
                        static_cast<double>(done_before_ + done_);

    const std::string head = fmt::format("epoch {}/{} ", epoch_, o_.epochs);
    std::string tail = fmt::format(" {:3.0f}%  loss {:.4f}  {} {}/s  {}", std::floor(share * 100),
                                   loss_, rate(speed), o_.unit, memory(stats().bytes_peak));
    if (!last)
        tail += fmt::format("  {} left", duration(speed > 0 ? left / speed : 0));
    else
        tail += fmt::format("  {}", duration(seconds() - seconds_before_));
    if (last && !note.empty()) tail += "  " + note;

    if (!terminal_) {
        fmt::print(o_.out, "{}{}\n", head, tail);
    } else {
        const int width = std::max(terminal_width(o_.out), 20) - 1;
        // A line that wraps could not be redrawn; at the end it may.
        if (const auto most = static_cast<std::size_t>(width) - head.size(); !last)
            tail = tail.substr(0, most);
        const int room = width - static_cast<int>(head.size() + tail.size());
        // \033[K clears what a longer line left behind.
        fmt::print(o_.out, "\r{}{}{}\033[K{}", head,
                   room >= 5 ? bar(share, std::min(room, 30)) : "", tail, last ? "\n" : "");
    }
    std::fflush(o_.out);
}

}  // namespace pippin::train
