#include "backends/vulkan/pipelines.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "backends/vulkan/compiler.h"
#include "io/atomic_file.h"

namespace pippin::vulkan {
namespace {

// What the files hold may not grow without end: beyond this they start anew.
constexpr std::size_t kMostSpirv = std::size_t{32} << 20;
constexpr std::size_t kMostDriver = std::size_t{128} << 20;
constexpr std::uint64_t kMagic = 0x31305653'4E505050u;  // changes when the format does

std::vector<char> read_file(const std::filesystem::path& path, std::size_t most) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    if (!in) return {};
    const auto size = static_cast<std::size_t>(std::max<std::streamoff>(in.tellg(), 0));
    if (size > most) return {};
    std::vector<char> bytes(size);
    in.seekg(0);
    in.read(bytes.data(), static_cast<std::streamsize>(size));
    if (!in) return {};
    return bytes;
}

// f(0) to f(n - 1), by all cores.
template <class F>
void by_all_cores(std::size_t n, const F& f) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t i; (i = next.fetch_add(1)) < n;)
            f(i);
    };
    std::vector<std::thread> threads;
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    for (std::size_t t = 1; t < std::min(cores, n); ++t)
        threads.emplace_back(work);
    work();
    for (auto& t : threads)
        t.join();
}

}  // namespace

std::filesystem::path cache_folder() {
    if (const char* set = std::getenv("PIPPIN_CACHE_DIR")) return set;  // empty: no files
    if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg)
        return std::filesystem::path(xdg) / "pippin";
    if (const char* home = std::getenv("HOME"); home && *home)
        return std::filesystem::path(home) / ".cache" / "pippin";
    return {};
}

Pipelines::Pipelines(Context& context) : context_(context) {
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Push)};
    VkPipelineLayoutCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    info.pushConstantRangeCount = 1;
    info.pPushConstantRanges = &range;
    check(vkCreatePipelineLayout(context_.device, &info, nullptr, &layout_),
          "creating a pipeline layout");
    const std::filesystem::path folder = cache_folder();
    if (!folder.empty()) {
        VkPhysicalDeviceProperties p;
        vkGetPhysicalDeviceProperties(context_.physical, &p);
        std::string id;
        for (const std::uint8_t byte : p.pipelineCacheUUID)
            id += fmt::format("{:02x}", byte);
        spirv_file_ = folder / "kernels.spv";
        cache_file_ = folder / ("pipelines-" + id + ".bin");
    }
    load();
}

void Pipelines::load() {
    std::vector<char> driver;
    if (!cache_file_.empty()) driver = read_file(cache_file_, kMostDriver);
    VkPipelineCacheCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    info.initialDataSize = driver.size();
    info.pInitialData = driver.data();
    if (vkCreatePipelineCache(context_.device, &info, nullptr, &cache_) < 0) {
        info.initialDataSize = 0;
        check(vkCreatePipelineCache(context_.device, &info, nullptr, &cache_),
              "creating a pipeline cache");
    }
    if (spirv_file_.empty()) return;
    const std::vector<char> bytes = read_file(spirv_file_, kMostSpirv);
    // {magic}, then {key a, key b, words, the words} each; a damaged end is ignored.
    std::size_t at = 0;
    const auto take = [&](void* to, std::size_t n) {
        if (bytes.size() - at < n) return false;
        std::copy_n(bytes.data() + at, n, static_cast<char*>(to));
        at += n;
        return true;
    };
    std::uint64_t magic = 0;
    if (!take(&magic, 8) || magic != kMagic) return;
    for (;;) {
        Key key;
        std::uint64_t words = 0;
        if (!take(&key.a, 8) || !take(&key.b, 8) || !take(&words, 8)) return;
        if (words > (bytes.size() - at) / 4) return;
        std::vector<std::uint32_t> spirv(words);
        if (!take(spirv.data(), 4 * words)) return;
        spirv_.emplace(key, std::move(spirv));
    }
}

// A cache that cannot be written is no error: the next start compiles again.
void Pipelines::save() {
    if (spirv_file_.empty()) return;
    try {
        std::filesystem::create_directories(spirv_file_.parent_path());
        std::size_t size = 0;
        for (const auto& [key, words] : spirv_)
            size += 24 + 4 * words.size();
        if (size <= kMostSpirv) {
            io::AtomicFile file(spirv_file_);
            file.write(&kMagic, 8);
            for (const auto& [key, words] : spirv_) {
                const std::uint64_t head[3] = {key.a, key.b, words.size()};
                file.write(head, sizeof head);
                file.write(words.data(), 4 * words.size());
            }
            file.commit();
        } else {
            spirv_.clear();
        }
        std::size_t n = 0;
        if (vkGetPipelineCacheData(context_.device, cache_, &n, nullptr) < 0 || n > kMostDriver)
            return;
        std::vector<char> bytes(n);
        if (vkGetPipelineCacheData(context_.device, cache_, &n, bytes.data()) != VK_SUCCESS) return;
        io::AtomicFile file(cache_file_);
        file.write(bytes.data(), n);
        file.commit();
    } catch (const std::exception&) {
        spirv_file_.clear();
    }
}

std::string Pipelines::render(const gpu::KernelSource& kernel) const {
    const Capabilities& c = context_.caps;
    return gpu::render_glsl(kernel, {c.keep_denormals, c.keep_specials, c.native_half});
}

VkPipeline Pipelines::make(const std::vector<std::uint32_t>& spirv, VkPipelineCache cache) const {
    VkShaderModuleCreateInfo module{};
    module.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module.codeSize = 4 * spirv.size();
    module.pCode = spirv.data();
    VkShaderModule shader = VK_NULL_HANDLE;
    check(vkCreateShaderModule(context_.device, &module, nullptr, &shader), "loading a kernel");
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = shader;
    info.stage.pName = "main";
    info.layout = layout_;
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult r =
        vkCreateComputePipelines(context_.device, cache, 1, &info, nullptr, &pipeline);
    vkDestroyShaderModule(context_.device, shader, nullptr);
    check(r, "compiling a kernel");
    return pipeline;
}

void Pipelines::dispatch(VkCommandBuffer commands, VkPipeline kernel, const Push& push,
                         std::int64_t groups) const {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel);
    vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
    // A row of groups, folded where a device's rows are shorter.
    const std::int64_t x = std::min<std::int64_t>(groups, context_.caps.max_groups_x);
    const std::int64_t y = (groups + x - 1) / x;
    if (y > context_.caps.max_groups_y)
        throw DeviceError("gpu: a kernel has more groups than the device takes");
    vkCmdDispatch(commands, static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 1);
}

std::vector<VkPipeline> Pipelines::get(const std::vector<gpu::KernelSource>& kernels) {
    std::vector<VkPipeline> out(kernels.size());
    std::vector<Key> keys;
    std::vector<std::string> texts;
    for (const auto& k : kernels) {
        texts.push_back(render(k));
        keys.push_back(Key::of(texts.back()));
    }
    std::lock_guard lock(mutex_);
    std::vector<std::size_t> fresh;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
        const auto it = pipelines_.find(keys[k]);
        if (it != pipelines_.end())
            out[k] = it->second;
        else if (std::none_of(fresh.begin(), fresh.end(),
                              [&](std::size_t f) { return keys[f] == keys[k]; }))
            fresh.push_back(k);
    }
    if (fresh.empty() && !unsaved_) return out;
    std::vector<std::vector<std::uint32_t>> compiled(fresh.size());
    std::vector<std::exception_ptr> errors(fresh.size());
    by_all_cores(fresh.size(), [&](std::size_t i) {
        try {
            const std::size_t k = fresh[i];
            const auto known = spirv_.find(keys[k]);
            if (known == spirv_.end()) compiled[i] = compile_glsl(texts[k]);
            out[k] = make(known == spirv_.end() ? compiled[i] : known->second, cache_);
        } catch (...) {
            errors[i] = std::current_exception();
        }
    });
    bool grown = std::exchange(unsaved_, false);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
        if (!out[fresh[i]]) continue;
        pipelines_[keys[fresh[i]]] = out[fresh[i]];
        if (compiled[i].empty()) continue;
        spirv_[keys[fresh[i]]] = std::move(compiled[i]);
        grown = true;
    }
    for (const auto& e : errors)
        if (e) std::rethrow_exception(e);
    for (std::size_t k = 0; k < kernels.size(); ++k)
        if (!out[k]) out[k] = pipelines_.at(keys[k]);
    if (grown) save();
    return out;
}

// --- trials ---

Pipelines::Trial Pipelines::try_one(const std::string& text,
                                    std::vector<std::uint32_t> spirv) const {
    Trial t;
    t.spirv = std::move(spirv);
    try {
        if (t.spirv.empty()) t.spirv = compile_glsl(text);
        VkPipelineCacheCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
        check(vkCreatePipelineCache(context_.device, &info, nullptr, &t.cache),
              "creating a pipeline cache");
        t.result.pipeline = make(t.spirv, t.cache);
    } catch (const std::exception& e) {
        t.result.error = e.what();
    }
    return t;
}

void Pipelines::destroy(Trial& t) const {
    if (t.result.pipeline) vkDestroyPipeline(context_.device, t.result.pipeline, nullptr);
    if (t.cache) vkDestroyPipelineCache(context_.device, t.cache, nullptr);
}

std::vector<Pipelines::Tried> Pipelines::try_all(const std::vector<gpu::KernelSource>& kernels) {
    std::vector<Key> keys, fresh;
    std::vector<std::string> texts;
    std::lock_guard lock(mutex_);
    for (const auto& k : kernels) {
        std::string text = render(k);
        keys.push_back(Key::of(text));
        if (pipelines_.contains(keys.back()) || !tried_.try_emplace(keys.back()).second) continue;
        fresh.push_back(keys.back());
        texts.push_back(std::move(text));
    }
    std::vector<Trial> made(fresh.size());
    by_all_cores(fresh.size(), [&](std::size_t i) {
        const auto known = spirv_.find(fresh[i]);
        made[i] =
            try_one(texts[i], known == spirv_.end() ? std::vector<std::uint32_t>{} : known->second);
    });
    for (std::size_t i = 0; i < fresh.size(); ++i)
        tried_[fresh[i]] = std::move(made[i]);
    std::vector<Tried> out;
    for (const Key& key : keys) {
        const auto own = pipelines_.find(key);
        out.push_back(own == pipelines_.end() ? tried_.at(key).result : Tried{own->second, ""});
    }
    return out;
}

void Pipelines::keep(const std::vector<gpu::KernelSource>& kernels) {
    std::lock_guard lock(mutex_);
    for (const auto& k : kernels) {
        const Key key = Key::of(render(k));
        const auto it = tried_.find(key);
        if (it == tried_.end() || !it->second.result.pipeline) continue;
        Trial& t = it->second;
        if (pipelines_.emplace(key, t.result.pipeline).second) t.result.pipeline = VK_NULL_HANDLE;
        spirv_.emplace(key, std::move(t.spirv));
        vkMergePipelineCaches(context_.device, cache_, 1, &t.cache);  // else it compiles again
        destroy(t);
        tried_.erase(it);
        unsaved_ = true;
    }
}

void Pipelines::drop_tried() {
    std::lock_guard lock(mutex_);
    for (auto& [key, t] : tried_)
        destroy(t);
    tried_.clear();
}

std::size_t Pipelines::count() {
    std::lock_guard lock(mutex_);
    return pipelines_.size();
}

}  // namespace pippin::vulkan
