// The extents of a tensor, outermost first. At most 8 dimensions.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace pippin {

class Shape {
  public:
    static constexpr int kMaxRank = 8;

    Shape() = default;
    Shape(std::initializer_list<std::int64_t> dims)
        : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}
    Shape(const std::vector<std::int64_t>& dims) : Shape(std::span<const std::int64_t>(dims)) {}
    /// ValueError for more than 8 dimensions.
    explicit Shape(std::span<const std::int64_t> dims);

    int rank() const { return rank_; }
    int size() const { return rank_; }
    bool empty() const { return rank_ == 0; }
    std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
    std::int64_t& operator[](int i) { return dims_[static_cast<std::size_t>(i)]; }
    std::int64_t back() const { return dims_[static_cast<std::size_t>(rank_ - 1)]; }
    const std::int64_t* begin() const { return dims_.data(); }
    const std::int64_t* end() const { return dims_.data() + rank_; }
    std::int64_t* begin() { return dims_.data(); }
    std::int64_t* end() { return dims_.data() + rank_; }
    void push_back(std::int64_t extent);
    void insert(int at, std::int64_t extent);
    void erase(int at);

    /// Product of the extents; 1 for a 0-d shape.
    std::int64_t numel() const {
        std::int64_t n = 1;
        for (int i = 0; i < rank_; ++i)
            n *= dims_[static_cast<std::size_t>(i)];
        return n;
    }
    bool operator==(const Shape& o) const {
        if (rank_ != o.rank_) return false;
        for (int i = 0; i < rank_; ++i)
            if ((*this)[i] != o[i]) return false;
        return true;
    }
    std::vector<std::int64_t> to_vector() const { return {begin(), end()}; }
    /// "[2, 3]"
    std::string str() const;

  private:
    std::array<std::int64_t, kMaxRank> dims_{};
    int rank_ = 0;
};

/// The shape both broadcast to, PyTorch's rules; ValueError when they do not.
Shape broadcast_shapes(const Shape& a, const Shape& b);

}  // namespace pippin
