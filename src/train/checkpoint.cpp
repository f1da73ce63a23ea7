// Checkpoints of a whole run: a folder that appears in one step, with a manifest (state.json) that
// holds the checksum of every other file.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "pippin/io.h"
#include "pippin/random.h"
#include "train/accelerator_impl.h"

namespace pippin {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVersion = 1;
constexpr const char* kManifest = "state.json";

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
    throw FileError(fmt::format("checkpoint {}: {}", path.string(), what));
}

struct Checksum {
    std::uint64_t bytes = 0;
    std::uint32_t crc32 = 0;
};

Checksum checksum_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) fail(file, "cannot be read");
    Checksum c;
    std::vector<char> block(1 << 20);
    while (in) {
        in.read(block.data(), static_cast<std::streamsize>(block.size()));
        const auto n = static_cast<std::size_t>(in.gcount());
        c.crc32 = static_cast<std::uint32_t>(
            ::crc32(c.crc32, reinterpret_cast<const Bytef*>(block.data()), static_cast<uInt>(n)));
        c.bytes += n;
    }
    return c;
}

std::string file_name(const char* what, std::size_t index) {
    return index == 0 ? fmt::format("{}.safetensors", what)
                      : fmt::format("{}_{}.safetensors", what, index);
}

// "checkpoint_12" -> 12
std::optional<int> number_of(const fs::path& folder) {
    const std::string name = folder.filename().string();
    constexpr std::string_view prefix = "checkpoint_";
    if (name.rfind(prefix, 0) != 0) return std::nullopt;
    int n = 0;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + prefix.size(), end, n);
    if (error != std::errc() || at != end || n < 0) return std::nullopt;
    return n;
}

std::vector<std::pair<int, fs::path>> numbered(const fs::path& folder) {
    std::vector<std::pair<int, fs::path>> out;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
        if (const auto n = number_of(entry.path()); n && fs::exists(entry.path() / kManifest))
            out.emplace_back(*n, entry.path());
    std::sort(out.begin(), out.end());
    return out;
}

// Folders that killed writers left: ".<name>.<process>.partial"
void remove_abandoned(const fs::path& parent) {
    std::error_code error;
    std::vector<fs::path> abandoned;
    for (const auto& entry : fs::directory_iterator(parent, error)) {
        const std::string name = entry.path().filename().string();
        constexpr std::string_view suffix = ".partial";
        if (name.size() < suffix.size() || name[0] != '.' || !entry.is_directory(error) ||
            name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0)
            continue;
        const std::string stem = name.substr(0, name.size() - suffix.size());
        const std::size_t dot = stem.rfind('.');
        int process = 0;
        const char* end = stem.data() + stem.size();
        const auto [at, bad] = std::from_chars(stem.data() + dot + 1, end, process);
        if (bad == std::errc() && at == end && process > 0 && ::kill(process, 0) != 0)
            abandoned.push_back(entry.path());
    }
    for (const fs::path& folder : abandoned)
        fs::remove_all(folder, error);
}

// A folder that is written under another name and gets its own at the end.
class NewFolder {
  public:
    explicit NewFolder(const fs::path& target) : target_(target) {
        std::error_code error;
        if (fs::exists(target, error)) fail(target, "is there already; choose another name");
        parent_ = target.has_parent_path() ? target.parent_path() : fs::path(".");
        fs::create_directories(parent_, error);
        if (error) fail(target, "cannot make the folder: " + error.message());
        remove_abandoned(parent_);
        partial_ = parent_ / fmt::format(".{}.{}.partial", target.filename().string(), ::getpid());
        fs::remove_all(partial_, error);
        if (!fs::create_directory(partial_, error))
            fail(target, "cannot make the folder: " + error.message());
    }
    ~NewFolder() {
        std::error_code error;
        if (!done_) fs::remove_all(partial_, error);
    }
    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;

    fs::path file(const std::string& name) const { return partial_ / name; }
    const fs::path& partial() const { return partial_; }
    void commit() {
        io::flush_folder(partial_);
        std::error_code error;
        fs::rename(partial_, target_, error);
        if (error) fail(target_, "cannot be given its name: " + error.message());
        done_ = true;
        io::flush_folder(parent_);
    }

  private:
    fs::path target_, parent_, partial_;
    bool done_ = false;
};

io::NamedTensors gradients_of(const optim::Optimizer& optimizer) {
    io::NamedTensors out;
    std::size_t index = 0;
    for (const auto& group : optimizer.groups())
        for (const Tensor& p : group.params) {
            if (const Tensor g = p.grad(); g.defined())
                out.emplace_back(fmt::format("grad.{}", index), g);
            ++index;
        }
    return out;
}

void set_gradients(const optim::Optimizer& optimizer, const io::NamedTensors& gradients) {
    std::vector<Tensor> parameters;
    for (const auto& group : optimizer.groups())
        for (const Tensor& p : group.params)
            parameters.push_back(p);
    for (Tensor& p : parameters)
        p.zero_grad();
    for (const auto& [name, g] : gradients) {
        std::size_t index = 0;
        const char* end = name.data() + name.size();
        const auto [at, bad] =
            std::from_chars(name.data() + std::min<std::size_t>(5, name.size()), end, index);
        if (bad != std::errc() || at != end || index >= parameters.size())
            throw ValueError(fmt::format("gradient \"{}\" belongs to no parameter", name));
        parameters[index].set_grad(g);
    }
}

// Values of their own, to go back to when a load fails half-way.
io::NamedTensors snapshot(const io::NamedTensors& state) {
    io::NamedTensors out;
    for (const auto& [name, t] : state)
        out.emplace_back(name, t.detach());
    return out;
}

json read_manifest(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) fail(folder, "there is no such folder");
    std::ifstream in(folder / kManifest, std::ios::binary);
    if (!in) fail(folder, fmt::format("has no {}: it is no checkpoint", kManifest));
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    json manifest = json::parse(text, nullptr, false);
    if (!manifest.is_object() || manifest.value("format", json()) != "pippin checkpoint")
        fail(folder, fmt::format("{} is damaged, or no checkpoint's", kManifest));
    if (manifest.value("version", json()) != kVersion)
        fail(folder, fmt::format("has version {}, this Pippin reads {}",
                                 manifest.value("version", json()).dump(), kVersion));
    return manifest;
}

void verify_files(const fs::path& folder, const json& manifest) {
    for (const auto& [name, expected] : manifest.at("files").items()) {
        if (name.find('/') != std::string::npos)
            fail(folder, "names a file outside of it: " + name);
        const fs::path file = folder / name;
        std::error_code error;
        if (!fs::exists(file, error)) fail(folder, name + " is missing");
        const Checksum c = checksum_of(file);
        if (c.bytes != expected.at("bytes").get<std::uint64_t>() ||
            c.crc32 != expected.at("crc32").get<std::uint32_t>())
            fail(folder, name + " is damaged: its checksum is not the recorded one");
    }
}

std::string gradients_name(int process, std::size_t index) {
    return file_name(
        process == 0 ? "gradients" : fmt::format("gradients_process{}", process).c_str(), index);
}

void write_tensors(const fs::path& folder, const std::string& name, const io::NamedTensors& tensors,
                   json& files) {
    io::save_safetensors(folder / name, tensors, {{"format", "pt"}});
    const Checksum c = checksum_of(folder / name);
    files[name] = {{"bytes", c.bytes}, {"crc32", c.crc32}};
}

json as_json(const RandomState& random) {
    return {{"seed", random.seed}, {"sequence", random.sequence}};
}

}  // namespace

std::filesystem::path Accelerator::save_state(const fs::path& folder) {
    Impl& m = *impl_;
    fs::path target = folder;
    const fs::path automatic = m.options.project_dir / "checkpoints";
    const bool main = is_main_process();
    if (target.empty() && !m.options.automatic_checkpoint_naming)
        throw ValueError(
            "Accelerator.save_state: name a folder, or set automatic_checkpoint_naming");
    std::optional<NewFolder> out;
    dist::together([&] {
        if (!main) return;
        if (target.empty()) {
            const auto there = numbered(automatic);
            const int after = there.empty() ? 0 : there.back().first + 1;
            m.next_checkpoint = std::max(m.next_checkpoint, after);
            target = automatic / fmt::format("checkpoint_{}", m.next_checkpoint);
        }
        out.emplace(target);
    });
    // Each process adds what is its own: random state, and gradients that are still to be averaged.
    const fs::path partial = dist::broadcast(main ? out->partial().string() : "");
    const bool adding_up = m.window_batch > 0 && m.gradients_pending;
    json own{{"files", json::object()}};
    dist::together([&] {
        for (std::size_t i = 0; adding_up && i < m.optimizers.size(); ++i)
            write_tensors(partial, gradients_name(process_index(), i),
                          gradients_of(*m.optimizers[i]), own["files"]);
        own["random"] = as_json(random_state());
    });
    const std::vector<std::string> all = dist::all_gather(own.dump());
    dist::together([&] {
        if (!main) return;
        m.write_state(partial, all, adding_up);
        out->commit();
    });
    if (folder.empty()) {
        ++m.next_checkpoint;
        auto there = numbered(automatic);
        const auto limit = static_cast<std::size_t>(m.options.total_limit);
        for (std::size_t i = 0; main && limit > 0 && i + limit < there.size(); ++i) {
            std::error_code error;
            fs::remove(there[i].second / kManifest, error);  // first: what is left is none
            fs::remove_all(there[i].second, error);
        }
    }
    return dist::broadcast(target.string());
}

void Accelerator::Impl::write_state(const fs::path& folder,
                                    const std::vector<std::string>& of_processes,
                                    bool adding_up) const {
    json manifest{{"format", "pippin checkpoint"}, {"version", kVersion}};
    manifest["device"] = device.str();
    manifest["mixed_precision"] = precision;
    json& files = manifest["files"] = json::object();
    manifest["models"] = models.size();
    for (std::size_t i = 0; i < models.size(); ++i)
        write_tensors(folder, file_name("model", i), models[i]->state_dict(), files);
    manifest["optimizers"] = optimizers.size();
    for (std::size_t i = 0; i < optimizers.size(); ++i)
        write_tensors(folder, file_name("optimizer", i), optimizers[i]->state_dict(), files);
    manifest["schedules"] = json::array();
    for (const optim::Scheduler* s : schedules)
        manifest["schedules"].push_back(s->steps());
    manifest["loaders"] = json::array();
    for (const data::DataLoader* l : loaders) {
        const auto p = l->position();
        manifest["loaders"].push_back({{"epoch", p.epoch},
                                       {"batch", p.batch},
                                       {"seed", p.seed},
                                       {"batches", l->size()},
                                       {"batch_size", l->options().batch_size}});
    }
    manifest["processes"] = of_processes.size();
    for (const std::string& text : of_processes) {
        const json own = json::parse(text);
        files.update(own.at("files"));
        if (of_processes.size() > 1)
            manifest["random"].push_back(own.at("random"));
        else
            manifest["random"] = own.at("random");
    }
    const auto scale = scaler.state();
    manifest["scaler"] = {{"scale", scale.scale},
                          {"good_steps", scale.good_steps},
                          {"skipped_steps", scale.skipped_steps}};
    manifest["steps"] = steps;
    manifest["window"] = {{"batch", adding_up ? window_batch : 0}, {"size", window_size}};
    manifest["custom"] = json::object();
    for (const Custom& c : custom)
        manifest["custom"][c.name] = c.save();
    std::string text;
    try {
        text = manifest.dump(2) + "\n";
    } catch (const json::exception&) {
        throw ValueError("Accelerator.save_state: registered text must be UTF-8");
    }
    io::AtomicFile file(folder / kManifest);
    file.write(text.data(), text.size());
    file.commit();
}

std::optional<fs::path> Accelerator::latest_checkpoint() const {
    auto there = numbered(impl_->options.project_dir / "checkpoints");
    if (there.empty()) return std::nullopt;
    return there.back().second;
}

std::filesystem::path Accelerator::load_state(const fs::path& given) {
    Impl& m = *impl_;
    fs::path folder = given;
    dist::together([&] {
        if (!given.empty()) return;
        const auto latest = latest_checkpoint();
        if (!latest)
            fail(m.options.project_dir / "checkpoints", "there is no checkpoint to go on from");
        folder = *latest;
    });
    folder = dist::broadcast(folder.string());
    dist::together([&] { m.read_state(folder); });
    return folder;
}

void Accelerator::Impl::read_state(const fs::path& folder) {
    Impl& m = *this;
    const json manifest = read_manifest(folder);
    struct Counts {
        const char* what;
        std::size_t have, need;
    };
    io::NamedTensors tensors;
    std::vector<io::NamedTensors> new_models, new_optimizers, new_gradients;
    std::vector<data::DataLoader::Position> positions;
    std::vector<std::int64_t> schedule_steps;
    RandomState random;
    amp::GradScaler::State scale;
    std::int64_t steps_then = 0;
    int batch = 0, size = 1;
    std::map<std::string, std::string> texts;
    try {
        verify_files(folder, manifest);
        const auto processes = manifest.value("processes", 1);
        if (processes != place.size)
            fail(folder, fmt::format("was saved by {} process{}, and this run has {}: launch it "
                                     "with --num_processes {}",
                                     processes, processes == 1 ? "" : "es", place.size, processes));
        const json& of_all = manifest.at("random");
        const json& own_random =
            of_all.is_array() ? of_all.at(static_cast<std::size_t>(place.rank)) : of_all;
        for (const Counts& c :
             {Counts{"models", manifest.at("models").get<std::size_t>(), m.models.size()},
              Counts{"optimizers", manifest.at("optimizers").get<std::size_t>(),
                     m.optimizers.size()},
              Counts{"schedules", manifest.at("schedules").size(), m.schedules.size()},
              Counts{"loaders", manifest.at("loaders").size(), m.loaders.size()}})
            if (c.have != c.need)
                fail(folder,
                     fmt::format("has {} {}, but {} were prepared", c.have, c.what, c.need));
        batch = manifest.at("window").at("batch").get<int>();
        size = manifest.at("window").at("size").get<int>();
        for (std::size_t i = 0; i < m.models.size(); ++i)
            new_models.push_back(
                io::load_safetensors(folder / file_name("model", i)).tensors(m.device));
        for (std::size_t i = 0; i < m.optimizers.size(); ++i) {
            new_optimizers.push_back(
                io::load_safetensors(folder / file_name("optimizer", i)).tensors(m.device));
            new_gradients.emplace_back();
            if (batch > 0)
                new_gradients.back() =
                    io::load_safetensors(folder / gradients_name(place.rank, i)).tensors(m.device);
        }
        for (const json& s : manifest.at("schedules"))
            schedule_steps.push_back(s.get<std::int64_t>());
        for (std::size_t i = 0; i < m.loaders.size(); ++i) {
            const json& l = manifest.at("loaders").at(i);
            positions.push_back({l.at("epoch").get<std::int64_t>(),
                                 l.at("batch").get<std::int64_t>(),
                                 l.at("seed").get<std::uint64_t>()});
            if (l.at("batches").get<std::int64_t>() != m.loaders[i]->size() ||
                l.at("batch_size").get<std::int64_t>() != m.loaders[i]->options().batch_size)
                fail(folder, fmt::format("loader {} gave {} batches of {}, this one gives {} of {}",
                                         i, l.at("batches").get<std::int64_t>(),
                                         l.at("batch_size").get<std::int64_t>(),
                                         m.loaders[i]->size(), m.loaders[i]->options().batch_size));
        }
        random = {own_random.at("seed").get<std::uint64_t>(),
                  own_random.at("sequence").get<std::uint64_t>()};
        scale = {manifest.at("scaler").at("scale").get<double>(),
                 manifest.at("scaler").at("good_steps").get<std::int64_t>(),
                 manifest.at("scaler").at("skipped_steps").get<std::int64_t>()};
        steps_then = manifest.at("steps").get<std::int64_t>();
        texts = manifest.at("custom").get<std::map<std::string, std::string>>();
    } catch (const json::exception& e) {
        fail(folder, fmt::format("{} is damaged: {}", kManifest, e.what()));
    }
    for (const Impl::Custom& c : m.custom)
        if (!texts.count(c.name))
            fail(folder, fmt::format("has no \"{}\", which was registered", c.name));

    // Everything is read; from here on a failure goes back to what was.
    std::vector<io::NamedTensors> old_models, old_optimizers, old_gradients;
    std::vector<std::int64_t> old_steps;
    std::vector<data::DataLoader::Position> old_positions;
    const RandomState old_random = random_state();
    for (nn::Module* x : m.models)
        old_models.push_back(snapshot(x->state_dict()));
    for (optim::Optimizer* x : m.optimizers) {
        old_optimizers.push_back(snapshot(x->state_dict()));
        old_gradients.push_back(snapshot(gradients_of(*x)));
    }
    for (optim::Scheduler* x : m.schedules)
        old_steps.push_back(x->steps());
    for (data::DataLoader* x : m.loaders)
        old_positions.push_back(x->position());
    const auto put = [&](const auto& from_models, const auto& from_optimizers,
                         const auto& from_gradients, const auto& from_steps,
                         const auto& from_positions, RandomState from_random) {
        for (std::size_t i = 0; i < m.models.size(); ++i)
            m.models[i]->load_state_dict(from_models[i]);
        // Schedules first: they set learning rates, which the optimizers' states hold too.
        for (std::size_t i = 0; i < m.schedules.size(); ++i)
            m.schedules[i]->load(from_steps[i]);
        for (std::size_t i = 0; i < m.optimizers.size(); ++i) {
            m.optimizers[i]->load_state_dict(from_optimizers[i]);
            set_gradients(*m.optimizers[i], from_gradients[i]);
        }
        for (std::size_t i = 0; i < m.loaders.size(); ++i)
            m.loaders[i]->set_position(from_positions[i]);
        set_random_state(from_random);
    };
    try {
        put(new_models, new_optimizers, new_gradients, schedule_steps, positions, random);
        for (const Impl::Custom& c : m.custom)
            c.load(texts.at(c.name));
        m.scaler.load_state(scale.scale > 0 ? scale : m.scaler.state());
    } catch (...) {
        put(old_models, old_optimizers, old_gradients, old_steps, old_positions, old_random);
        throw;
    }
    m.steps = steps_then;
    m.window_batch = batch;
    m.window_size = size;
    m.gradients_pending = batch > 0;
    const std::string made_on = manifest.value("device", "");
    if (made_on != m.device.str() && place.rank == 0)
        fmt::print(stderr, "pippin: {} was made on {}; going on with it on {}\n", folder.string(),
                   made_on, m.device.str());
}

namespace {

// Bytes of a size like "10GB" or "512 MiB".
std::uint64_t bytes_of(const std::string& text) {
    std::uint64_t number = 0;
    const char *first = text.data(), *last = first + text.size();
    const auto [end, error] = std::from_chars(first, last, number);
    std::string unit(end, last);
    std::erase(unit, ' ');
    for (char& c : unit)
        c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    static const std::map<std::string, std::uint64_t> units{
        {"", 1},          {"B", 1},         {"KB", 1000},    {"MB", 1000000}, {"GB", 1000000000},
        {"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}};
    const auto unit_bytes = units.find(unit);
    if (error != std::errc() || number == 0 || unit_bytes == units.end() ||
        number > (std::uint64_t{1} << 62) / unit_bytes->second)
        throw ValueError(fmt::format(
            "Accelerator.save_model: \"{}\" is no size; give bytes, or KB, MB, GB, KiB, MiB or GiB "
            "as in \"500MB\"",
            text));
    return number * unit_bytes->second;
}

}  // namespace

void Accelerator::save_model(const nn::Module& model, const fs::path& folder,
                             const std::string& max_shard_size) const {
    const std::uint64_t bytes = bytes_of(max_shard_size);
    if (!is_main_process()) return;
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
        throw FileError(fmt::format("Accelerator.save_model: cannot make the folder {}: {}",
                                    folder.string(), error.message()));
    io::save_sharded(folder, model.state_dict(), bytes, {{"format", "pt"}});
}

}  // namespace pippin
