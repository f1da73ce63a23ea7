// Which processor a tensor lives on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pippin {

class Device {
  public:
    enum class Type : std::uint8_t { CPU, GPU };

    constexpr Device(Type type = Type::CPU, int index = 0)
        : type_(type), index_(static_cast<std::int8_t>(index)) {}
    /// "cpu", "gpu", "gpu:1"; "mps" is a second name of "gpu". ValueError for anything else.
    explicit Device(std::string_view text);

    constexpr Type type() const { return type_; }
    constexpr int index() const { return index_; }
    constexpr bool operator==(const Device&) const = default;
    /// "cpu" or "gpu:0"
    std::string str() const;
    /// One line for people: the processor's or GPU's name, threads or memory.
    std::string description() const;

  private:
    Type type_;
    std::int8_t index_;
};

/// The device new tensors go to, and why it was chosen: PIPPIN_DEVICE, set_default_device, or the
/// best one found.
Device default_device();
std::string default_device_reason();
/// DeviceError when this build or machine has no such device.
void set_default_device(Device device);

/// Waits for all submitted work, and raises what went wrong in it.
void synchronize();

/// Threads that CPU kernels use. The default is the number of cores this process may run on.
int num_threads();
void set_num_threads(int n);

}  // namespace pippin
