// Files of the program fortune: texts, parted by lines of "%".
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>

#include "io/file_error.h"
#include "io/input_file.h"
#include "pippin/text_dataset.h"

namespace pippin::data {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> list(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        std::error_code ignored;
        // Beside each file lie its index and a link to it for UTF-8 readers.
        if (!name.starts_with('.') && !name.ends_with(".dat") && !name.ends_with(".u8") &&
            fs::is_regular_file(at->path(), ignored))
            names.push_back(name);
    }
    if (error)
        io::throw_file_error(folder,
                             "cannot list this folder of fortunes (Debian's packages fortunes and "
                             "fortunes-min make one)",
                             error.value());
    std::ranges::sort(names);
    return names;
}

void append(const fs::path& path, std::int64_t label, LabelledTexts& out) {
    const std::vector<std::byte> file = io::read_file(path);
    std::string_view rest(reinterpret_cast<const char*>(file.data()), file.size());
    const std::size_t before = out.texts.size();
    std::string text;
    const auto end_text = [&] {
        if (const std::size_t last = text.find_last_not_of(" \t\r\n"); last != std::string::npos) {
            out.texts.push_back(text.substr(0, last + 1));
            out.labels.push_back(label);
        }
        text.clear();
    };
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line == "%") {
            end_text();
        } else {
            text += line;
            text += '\n';
        }
    }
    end_text();
    if (out.texts.size() == before) io::throw_file_error(path, "has no texts");
}

}  // namespace

LabelledTexts read_fortunes(const fs::path& folder, const std::vector<std::string>& files) {
    LabelledTexts out;
    out.classes = files.empty() ? list(folder) : files;
    if (out.classes.empty()) io::throw_file_error(folder, "has no files of fortunes");
    for (std::size_t i = 0; i < out.classes.size(); ++i)
        append(folder / out.classes[i], static_cast<std::int64_t>(i), out);
    return out;
}

}  // namespace pippin::data
