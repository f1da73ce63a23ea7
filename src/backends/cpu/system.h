// What is particular to an operating system: names, sizes, large pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pippin::cpu {

std::string processor_name();
std::int64_t memory_bytes();

/// Memory for tensors, aligned to at least 64 bytes; null when there is none.
void* allocate_pages(std::size_t bytes);
void free_pages(void* data, std::size_t bytes);

}  // namespace pippin::cpu
