#include "run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "pippin/error.h"

namespace pippin::cli {
namespace {

namespace fs = std::filesystem;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_event_file(const fs::path& path) {
    return path.filename().string().find(".tfevents.") != std::string::npos;
}

std::string whole(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw FileError(fmt::format("{}: cannot be read", path.string()));
    return {std::istreambuf_iterator<char>(in), {}};
}

// --- CSV ---

// Takes a record off the front of `text`; quoted cells may hold commas and line ends. A record
// without its line end is not whole.
std::optional<std::vector<std::string>> take_record(std::string_view& text) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c != '"')
                cells.back() += c;
            else if (i + 1 < text.size() && text[i + 1] == '"')
                cells.back() += text[++i];
            else
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == ',') {
            cells.emplace_back();
        } else if (c == '\n') {
            text.remove_prefix(i + 1);
            return cells;
        } else if (c != '\r') {
            cells.back() += c;
        }
    }
    return std::nullopt;
}

double number(const std::string& cell) {
    char* end = nullptr;
    const double v = std::strtod(cell.c_str(), &end);
    return !cell.empty() && *end == 0 ? v : kNaN;
}

void read_csv(const fs::path& path, RunMetrics& run) {
    const std::string bytes = whole(path);
    std::string_view text = bytes;
    const auto columns = take_record(text);
    if (!columns) throw FileError(fmt::format("{}: has no line of column names", path.string()));
    std::size_t x = 0;  // the first column, unless one has the right name
    for (const char* name : {"epoch", "step"})
        for (std::size_t i = 0; i < columns->size(); ++i)
            if ((*columns)[i] == name) x = i;
    run.x_name = (*columns)[x];
    for (int line = 2; const auto cells = take_record(text); ++line) {
        if (cells->size() == 1 && cells->front().empty()) continue;
        if (cells->size() != columns->size())
            throw FileError(fmt::format("{}: line {} has {} cells where there are {} columns",
                                        path.string(), line, cells->size(), columns->size()));
        for (std::size_t i = 0; i < cells->size(); ++i)
            // An empty cell: this row does not speak of that metric.
            if (i != x && !(*cells)[i].empty())
                run.add((*columns)[i], number((*cells)[x]), number((*cells)[i]));
    }
}

// --- JSON lines ---

void read_jsonl(const fs::path& path, RunMetrics& run) {
    std::ifstream in(path);
    if (!in) throw FileError(fmt::format("{}: cannot be read", path.string()));
    int line = 0;
    for (std::string text; std::getline(in, text);) {
        ++line;
        if (text.empty()) continue;
        const auto row = nlohmann::json::parse(text, nullptr, false);
        if (!row.is_object()) {
            if (in.peek() == std::ifstream::traits_type::eof()) break;  // cut
            throw FileError(fmt::format("{}: line {} is no JSON object", path.string(), line));
        }
        if (run.x_name.empty()) run.x_name = row.contains("step") ? "step" : "epoch";
        const auto x = row.find(run.x_name);
        if (x == row.end() || !x->is_number())
            throw FileError(fmt::format("{}: line {} has no {}", path.string(), line, run.x_name));
        for (const auto& [name, value] : row.items())
            if (name != run.x_name && (value.is_number() || value.is_null()))
                run.add(name, x->get<double>(), value.is_null() ? kNaN : value.get<double>());
    }
}

// --- TensorBoard's event files: records of length, checksum, tensorflow.Event, checksum ---

template <class T>
T little_endian(std::string_view bytes) {
    T v = 0;
    for (std::size_t i = 0; i < sizeof v; ++i)
        v |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    return v;
}

// Goes over the fields of a protocol buffer message.
class Fields {
  public:
    explicit Fields(std::string_view message) : rest_(message) {}
    int number = 0, kind = 0;
    std::uint64_t value = 0;  ///< of kind 0, and the bits of kinds 1 and 5
    std::string_view bytes;   ///< of kind 2

    /// False at the end, and where the message is damaged.
    bool next() {
        std::uint64_t key = 0;
        if (rest_.empty() || !varint(key)) return false;
        number = static_cast<int>(key >> 3);
        kind = static_cast<int>(key & 7);
        if (kind == 0) return varint(value);
        if (kind == 1 && take(8)) return value = little_endian<std::uint64_t>(bytes), true;
        if (kind == 5 && take(4)) return value = little_endian<std::uint32_t>(bytes), true;
        std::uint64_t length = 0;
        return kind == 2 && varint(length) && take(length);
    }
    double real() const {
        return kind == 1
                   ? std::bit_cast<double>(value)
                   : static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(value)));
    }

  private:
    bool take(std::uint64_t n) {
        if (n > rest_.size()) return false;
        bytes = rest_.substr(0, n);
        rest_.remove_prefix(n);
        return true;
    }
    bool varint(std::uint64_t& v) {
        v = 0;
        for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            v |= std::uint64_t{byte & 0x7fu} << shift;
            if (byte < 0x80) return true;
        }
        return false;
    }
    std::string_view rest_;
};

// Scalars are Summary.Value's simple_value, or a tensor with one number in newer writers.
double scalar(std::string_view tensor) {
    double v = kNaN;
    for (Fields t(tensor); t.next();) {
        if (t.number == 4 && t.kind == 2 && t.bytes.size() == 4)  // tensor_content
            v = std::bit_cast<float>(little_endian<std::uint32_t>(t.bytes));
        if ((t.number == 5 || t.number == 6) && t.kind != 2 && t.kind != 0) v = t.real();
        if (t.number == 5 && t.kind == 2 && t.bytes.size() == 4)  // packed float_val
            v = std::bit_cast<float>(little_endian<std::uint32_t>(t.bytes));
    }
    return v;
}

void read_event(std::string_view event, RunMetrics& run) {
    double step = 0;
    std::vector<std::string_view> summaries;
    for (Fields e(event); e.next();) {
        if (e.number == 2 && e.kind == 0) step = static_cast<double>(e.value);
        if (e.number == 5 && e.kind == 2) summaries.push_back(e.bytes);
    }
    for (const std::string_view summary : summaries)
        for (Fields s(summary); s.next();) {
            if (s.number != 1 || s.kind != 2) continue;
            std::string tag;
            std::optional<double> value;
            for (Fields v(s.bytes); v.next();) {
                if (v.number == 1 && v.kind == 2) tag = v.bytes;
                if (v.number == 2 && v.kind == 5) value = v.real();
                if (v.number == 8 && v.kind == 2 && !value) {
                    const double one = scalar(v.bytes);
                    if (!std::isnan(one)) value = one;
                }
            }
            if (value) run.add(tag, step, *value);
        }
}

void read_events(const fs::path& path, RunMetrics& run) {
    const std::string bytes = whole(path);
    run.x_name = "step";
    for (std::string_view rest = bytes; rest.size() >= 16;) {
        const auto length = little_endian<std::uint64_t>(rest);
        if (length > rest.size() - 16) break;  // cut, or no event file at all
        read_event(rest.substr(12, length), run);
        rest.remove_prefix(length + 16);
    }
}

// What there is to read in a folder; several event files are parts of one run.
std::vector<fs::path> files_in(const fs::path& folder) {
    std::error_code error;
    for (const char* name : {"metrics.csv", "metrics.jsonl"})
        if (fs::is_regular_file(folder / name, error)) return {folder / name};
    std::vector<fs::path> events;
    for (const auto& entry : fs::directory_iterator(folder, error))
        if (is_event_file(entry.path())) events.push_back(entry.path());
    std::sort(events.begin(), events.end());
    return events;
}

}  // namespace

void RunMetrics::add(const std::string& metric, double x, double y) {
    const auto [at, fresh] = values.try_emplace(metric);
    if (fresh) order.push_back(metric);
    at->second.emplace_back(x, y);
}

RunMetrics read_run(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error))
        throw FileError(fmt::format("{}: there is no such file or folder", path.string()));
    std::vector<fs::path> files{path};
    if (fs::is_directory(path, error)) {
        files = files_in(path);
        if (files.empty()) {  // --project_dir logs has its run in logs/<name>
            std::vector<fs::path> folders;
            for (const auto& entry : fs::directory_iterator(path, error))
                if (entry.is_directory(error) && !files_in(entry.path()).empty())
                    folders.push_back(entry.path());
            if (folders.size() > 1) {
                std::sort(folders.begin(), folders.end());
                std::string names;
                for (const fs::path& f : folders)
                    names += " " + f.string();
                throw FileError(
                    fmt::format("{} holds several runs: name them, as in{}", path.string(), names));
            }
            if (folders.size() == 1) files = files_in(folders.front());
        }
    }
    if (files.empty())
        throw FileError(fmt::format(
            "{} has no metrics.csv, no metrics.jsonl and no events.out.tfevents.*", path.string()));
    RunMetrics run;
    run.file = files.front();
    for (const fs::path& file : files) {
        if (is_event_file(file))
            read_events(file, run);
        else if (file.extension() == ".jsonl" || file.extension() == ".json")
            read_jsonl(file, run);
        else
            read_csv(file, run);
    }
    if (run.values.empty())
        throw FileError(fmt::format("{} has no numbers yet", run.file.string()));
    return run;
}

}  // namespace pippin::cli
