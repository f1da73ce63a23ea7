// CSV and JSON lines; TensorBoard's format is in tensorboard.cpp.
#include "pippin/trackers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/atomic_file.h"
#include "pippin/error.h"
#include "train/tensorboard.h"

namespace pippin::train {
namespace {

namespace fs = std::filesystem;

// A file that lines are added to, each on disk at once.
class LineFile {
  public:
    LineFile(fs::path path, const char* mode) : path_(std::move(path)) {
        file_ = std::fopen(path_.c_str(), mode);
        if (!file_)
            throw FileError(
                fmt::format("tracker: cannot write {}: {}", path_.string(), std::strerror(errno)));
    }
    ~LineFile() { std::fclose(file_); }
    LineFile(const LineFile&) = delete;
    LineFile& operator=(const LineFile&) = delete;
    void add(const std::string& line) {
        if (std::fputs((line + "\n").c_str(), file_) < 0 || std::fflush(file_) != 0)
            throw FileError(
                fmt::format("tracker: cannot write {}: {}", path_.string(), std::strerror(errno)));
    }

  private:
    fs::path path_;
    std::FILE* file_;
};

std::string number(double v) { return std::isfinite(v) ? fmt::format("{}", v) : ""; }

std::string cell(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string out = "\"";
    for (const char c : text)
        out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
}

class Csv : public Tracker {
  public:
    explicit Csv(const fs::path& folder) : folder_(folder) {}

    void config(const std::map<std::string, std::string>& values) override {
        LineFile out(folder_ / "config.csv", "w");
        out.add("name,value");
        for (const auto& [name, value] : values)
            out.add(cell(name) + "," + cell(value));
    }

    void log(const std::map<std::string, double>& values, std::int64_t step) override {
        bool new_column = !file_;
        for (const auto& [name, value] : values)
            if (std::find(columns_.begin(), columns_.end(), name) == columns_.end()) {
                columns_.push_back(name);
                new_column = true;
            }
        rows_.push_back({step, values});
        if (new_column) {
            rewrite();
            file_ = std::make_unique<LineFile>(folder_ / "metrics.csv", "a");
        } else {
            file_->add(line(rows_.back()));
        }
    }

  private:
    struct Row {
        std::int64_t step;
        std::map<std::string, double> values;
    };
    std::string line(const Row& row) const {
        std::string out = std::to_string(row.step);
        for (const std::string& c : columns_) {
            const auto found = row.values.find(c);
            out += "," + (found == row.values.end() ? "" : number(found->second));
        }
        return out;
    }
    void rewrite() {
        std::string text = "step";
        for (const std::string& c : columns_)
            text += "," + cell(c);
        text += "\n";
        for (const Row& row : rows_)
            text += line(row) + "\n";
        file_.reset();
        io::AtomicFile out(folder_ / "metrics.csv");
        out.write(text.data(), text.size());
        out.commit();
    }

    fs::path folder_;
    std::vector<std::string> columns_;
    std::vector<Row> rows_;
    std::unique_ptr<LineFile> file_;
};

class JsonLines : public Tracker {
  public:
    explicit JsonLines(const fs::path& folder)
        : folder_(folder), file_(folder / "metrics.jsonl", "a") {}

    void config(const std::map<std::string, std::string>& values) override {
        LineFile out(folder_ / "config.json", "w");
        out.add(
            nlohmann::json(values).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    }

    void log(const std::map<std::string, double>& values, std::int64_t step) override {
        nlohmann::json row{{"step", step}};
        for (const auto& [name, value] : values) {
            if (std::isfinite(value))
                row[name] = value;
            else
                row[name] = nullptr;
        }
        file_.add(row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }

  private:
    fs::path folder_;
    LineFile file_;
};

}  // namespace

std::unique_ptr<Tracker> make_tracker(std::string_view kind, const fs::path& folder) {
    if (kind != "tensorboard" && kind != "csv" && kind != "jsonl")
        throw ValueError(fmt::format(
            "tracker: there is no kind \"{}\"; there are tensorboard, csv and jsonl", kind));
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
        throw FileError(fmt::format("tracker: cannot make the folder {}: {}", folder.string(),
                                    error.message()));
    if (kind == "csv") return std::make_unique<Csv>(folder);
    if (kind == "jsonl") return std::make_unique<JsonLines>(folder);
    return make_tensorboard(folder);
}

}  // namespace pippin::train
