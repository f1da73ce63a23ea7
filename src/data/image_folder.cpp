#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "io/file_error.h"
#include "pippin/datasets.h"

namespace pippin::data {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool has_image_ending(const fs::path& path) {
    std::string ending = path.extension().string();
    std::ranges::transform(ending, ending.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

// What a folder holds, sorted, so that the order does not depend on the file system.
std::vector<fs::path> list(const fs::path& folder) {
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        if (!is_hidden(at->path())) entries.push_back(at->path());
    if (error) io::throw_file_error(folder, "cannot list this folder", error.value());
    std::ranges::sort(entries);
    return entries;
}

// `depth` ends what a link that leads back to its own folder would make endless.
void find_images(const fs::path& folder, int depth, std::vector<fs::path>& out) {
    if (depth > 40) io::throw_file_error(folder, "is nested too deeply: does a link lead back?");
    for (const fs::path& path : list(folder)) {
        std::error_code error;
        if (fs::is_directory(path, error))
            find_images(path, depth + 1, out);
        else if (has_image_ending(path))
            out.push_back(path);
    }
}

// "great_dane_17.jpg" is a "great_dane"; empty where the name is not of this form.
std::string label_in_name(const fs::path& path) {
    const std::string stem = path.stem().string();
    const std::size_t underscore = stem.find_last_of('_');
    if (underscore == std::string::npos || underscore + 1 == stem.size()) return "";
    const bool digits = std::all_of(stem.begin() + static_cast<std::ptrdiff_t>(underscore) + 1,
                                    stem.end(), [](char c) { return c >= '0' && c <= '9'; });
    return digits ? stem.substr(0, underscore) : "";
}

using ByLabel = std::map<std::string, std::vector<fs::path>>;

ByLabel find_by_folder(const fs::path& root) {
    ByLabel found;
    for (const fs::path& folder : list(root)) {
        std::error_code error;
        if (!fs::is_directory(folder, error)) continue;
        std::vector<fs::path>& files = found[folder.filename().string()];
        find_images(folder, 0, files);
        if (files.empty())
            io::throw_file_error(folder,
                                 "has no .jpg, .jpeg or .png files, but each folder in the "
                                 "one given is a class and needs some");
    }
    if (found.empty())
        io::throw_file_error(root,
                             "has no folders; expected was one for each class, with its images "
                             "in it (or Labels::FileNames for files named <label>_<digits>.jpg)");
    return found;
}

ByLabel find_by_name(const fs::path& root) {
    ByLabel found;
    for (const fs::path& path : list(root)) {
        std::error_code error;
        if (!has_image_ending(path) || fs::is_directory(path, error)) continue;
        const std::string label = label_in_name(path);
        if (label.empty())
            io::throw_file_error(path,
                                 "its name gives no label; expected was "
                                 "<label>_<digits>.jpg (or .jpeg or .png)");
        found[label].push_back(path);
    }
    if (found.empty())
        io::throw_file_error(root,
                             "has no images; expected were files named <label>_<digits>.jpg "
                             "(or .jpeg or .png)");
    return found;
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& root, Compose transform, Labels labels)
    : ImageDataset({}, std::move(transform)) {
    std::error_code error;
    if (!fs::exists(root, error)) io::throw_file_error(root, "there is no such folder of images");
    if (!fs::is_directory(root, error))
        io::throw_file_error(root, "is not a folder; expected was one with images");
    const ByLabel found = labels == Labels::Folders ? find_by_folder(root) : find_by_name(root);
    for (const auto& [name, paths] : found) {
        const auto label = static_cast<std::int64_t>(classes_.size());
        classes_.push_back(name);
        for (const fs::path& path : paths)
            files_.push_back({path, label});
    }
}

Image ImageFolder::image(std::int64_t index) const { return read_image(path(index)); }

std::int64_t ImageFolder::label(std::int64_t index) const {
    return files_[static_cast<std::size_t>(index)].label;
}

const fs::path& ImageFolder::path(std::int64_t index) const {
    return files_[static_cast<std::size_t>(index)].path;
}

}  // namespace pippin::data
