#include "backends/vulkan/backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "backends/gpu/tuner.h"
#include "backends/vulkan/bench.h"
#include "backends/vulkan/capabilities.h"
#include "backends/vulkan/context.h"
#include "backends/vulkan/executable.h"
#include "backends/vulkan/pipelines.h"
#include "pippin/error.h"

namespace pippin::vulkan {
namespace {

bool is_set(const char* variable) {
    const char* text = std::getenv(variable);
    return text && *text && std::strcmp(text, "0") != 0;
}

// The instance and its devices, looked for once.
struct Loader {
    VkInstance instance = VK_NULL_HANDLE;
    std::vector<VkPhysicalDevice> physical;  // usable ones, best first
    std::vector<Capabilities> capabilities;
    std::vector<gpu::Found> found;
    std::string why;

    Loader() {
        if (volkInitialize() != VK_SUCCESS) {
            why = "there is no Vulkan loader (libvulkan.so.1) on this machine";
            return;
        }
        VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                      nullptr,
                                      "pippin",
                                      0,
                                      "pippin",
                                      0,
                                      VK_API_VERSION_1_2};
        std::vector<const char*> extensions, layers;
        VkInstanceCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        info.pApplicationInfo = &application;
        // Translated drivers (MoltenVK) are listed only to those who ask.
        std::uint32_t count = 0;
        vkEnumerateInstanceExtensionProperties(nullptr, &count, nullptr);
        std::vector<VkExtensionProperties> known(count);
        vkEnumerateInstanceExtensionProperties(nullptr, &count, known.data());
        for (const auto& e : known)
            if (!std::strcmp(e.extensionName, "VK_KHR_portability_enumeration")) {
                extensions.push_back("VK_KHR_portability_enumeration");
                info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
            }
        info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
        info.ppEnabledExtensionNames = extensions.data();
        if (vkCreateInstance(&info, nullptr, &instance) != VK_SUCCESS) {
            why = "Vulkan does not start (is a driver installed?)";
            return;
        }
        volkLoadInstance(instance);
        find_devices();
    }

    void find_devices() {
        std::uint32_t count = 0;
        vkEnumeratePhysicalDevices(instance, &count, nullptr);
        std::vector<VkPhysicalDevice> all(count);
        vkEnumeratePhysicalDevices(instance, &count, all.data());
        const bool software = is_set("PIPPIN_ALLOW_SOFTWARE_GPU");
        struct Candidate {
            VkPhysicalDevice device;
            Capabilities caps;
        };
        std::vector<Candidate> usable;
        for (VkPhysicalDevice d : all) {
            Capabilities c = read_capabilities(d);
            if (!c.missing.empty())
                why += fmt::format("{} lacks{} ", c.name, c.missing);
            else if (c.software && !software)
                why += fmt::format(
                    "{} is software (PIPPIN_ALLOW_SOFTWARE_GPU=1 uses it, for tests) ", c.name);
            else
                usable.push_back({d, std::move(c)});
        }
        const auto rank = [](const Candidate& x) {
            return x.caps.software                                         ? 3
                   : x.caps.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU   ? 0
                   : x.caps.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? 1
                                                                           : 2;
        };
        std::stable_sort(usable.begin(), usable.end(),
                         [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
        for (auto& u : usable) {
            physical.push_back(u.device);
            found.push_back({u.caps.name, u.caps.software, u.caps.keep_denormals});
            capabilities.push_back(std::move(u.caps));
        }
        if (!found.empty())
            why = fmt::format("this machine has {} usable GPU{}", found.size(),
                              found.size() > 1 ? "s" : "");
        else if (why.empty())
            why = "no GPU with a Vulkan driver was found";
        while (!why.empty() && why.back() == ' ')
            why.pop_back();
    }
};

// Never destroyed: buffers may outlive static objects.
Loader& loader() {
    static auto* l = new Loader;
    return *l;
}

class VulkanBackend : public runtime::Backend {
  public:
    VulkanBackend(VkPhysicalDevice device, const Capabilities& c)
        : context_(device, c),
          pipelines_(context_),
          bench_(context_, pipelines_),
          tuner_(tuner_settings(c), bench_) {
        capabilities_.name = c.name;
        capabilities_.details = c.driver;
        capabilities_.unified_memory = c.unified;
        capabilities_.float64 = false;
        capabilities_.memory_bytes = c.memory_bytes;
    }

    const runtime::Capabilities& capabilities() const override { return capabilities_; }
    runtime::Memory allocate(std::size_t bytes) override {
        return context_.allocate(static_cast<std::int64_t>(bytes));
    }
    void free(const runtime::Memory& memory, std::size_t bytes) override {
        context_.free(memory, static_cast<std::int64_t>(bytes));
    }
    void upload(const runtime::Memory& to, const void* from, std::size_t bytes) override {
        context_.upload(to, from, static_cast<std::int64_t>(bytes));
    }
    void download(void* to, const runtime::Memory& from, std::size_t bytes) override {
        context_.download(to, from, static_cast<std::int64_t>(bytes));
    }
    bool supports(const plan::HeavyLaunch& launch) const override {
        gpu::Work work;
        gpu::Step step;
        try {
            return gpu::write_heavy(work, step, launch, {});
        } catch (const Error&) {
            return false;
        }
    }
    std::unique_ptr<runtime::Executable> compile(const plan::Plan& plan) override {
        return std::make_unique<VulkanExecutable>(context_, pipelines_, plan, tuner_.choose(plan));
    }
    TuningStats tuning() const override { return tuner_.stats(); }

  private:
    // Software is there for tests: where it spends its time says nothing about a GPU.
    static gpu::Tuner::Settings tuner_settings(const Capabilities& c) {
        gpu::Tuner::Settings s;
        s.mode = gpu::tune_mode(!c.software);
        if (c.nanoseconds_per_tick == 0) s.mode = gpu::TuneMode::Off;
        s.device = c.name + "\n" + c.driver;
        s.features = features_of(c);
        if (c.software) s.all_seconds = 4, s.share = 0;  // it compiles slowly
        s.kernels_at_once = std::clamp(4 * std::thread::hardware_concurrency(), 8u, 128u);
        if (const auto folder = cache_folder(); !folder.empty()) s.file = folder / "tuning.txt";
        return s;
    }

    Context context_;
    Pipelines pipelines_;
    DeviceBench bench_;
    gpu::Tuner tuner_;
    runtime::Capabilities capabilities_;
};

}  // namespace

const std::vector<gpu::Found>& devices() { return loader().found; }
std::string why_no_more_devices() { return loader().why; }

runtime::Backend& open_device(int index) {
    static std::mutex mutex;
    static auto* open = new std::map<int, std::unique_ptr<VulkanBackend>>;
    std::lock_guard lock(mutex);
    auto& own = (*open)[index];
    if (!own) {
        const auto k = static_cast<std::size_t>(index);
        own = std::make_unique<VulkanBackend>(loader().physical.at(k), loader().capabilities.at(k));
    }
    return *own;
}

}  // namespace pippin::vulkan
