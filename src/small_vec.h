// A vector that keeps its first N elements in place: nodes are made by the thousand each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <utility>

namespace pippin {

template <class T, std::size_t N>
class SmallVec {
  public:
    SmallVec() {}
    SmallVec(std::initializer_list<T> items) : SmallVec() {
        reserve(items.size());
        for (const T& v : items)
            push_back(v);
    }
    template <class It>
    SmallVec(It first, It last) : SmallVec() {
        for (; first != last; ++first)
            push_back(*first);
    }
    SmallVec(const SmallVec& o) : SmallVec() {
        reserve(o.size_);
        for (const T& v : o)
            push_back(v);
    }
    SmallVec(SmallVec&& o) noexcept : SmallVec() { take(o); }
    SmallVec& operator=(const SmallVec& o) {
        if (this != &o) {
            clear();
            reserve(o.size_);
            for (const T& v : o)
                push_back(v);
        }
        return *this;
    }
    SmallVec& operator=(SmallVec&& o) noexcept {
        if (this != &o) {
            release();
            take(o);
        }
        return *this;
    }
    ~SmallVec() { release(); }

    void push_back(T v) {
        if (size_ == capacity_) grow(capacity_ * 2u);
        new (data() + size_) T(std::move(v));
        ++size_;
    }
    void reserve(std::size_t n) {
        if (n > capacity_) grow(n);
    }
    void clear() {
        for (T& v : *this)
            v.~T();
        size_ = 0;
    }
    T* data() { return on_heap() ? heap_ : std::launder(reinterpret_cast<T*>(inline_)); }
    const T* data() const {
        return on_heap() ? heap_ : std::launder(reinterpret_cast<const T*>(inline_));
    }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](std::size_t i) { return data()[i]; }
    const T& operator[](std::size_t i) const { return data()[i]; }
    T* begin() { return data(); }
    T* end() { return data() + size_; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }
    T& back() { return data()[size_ - 1]; }
    bool operator==(const SmallVec& o) const {
        if (size_ != o.size_) return false;
        for (std::size_t i = 0; i < size_; ++i)
            if (!((*this)[i] == o[i])) return false;
        return true;
    }

  private:
    bool on_heap() const { return capacity_ > N; }
    void grow(std::size_t n) {
        T* grown = static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(alignof(T))));
        for (std::size_t i = 0; i < size_; ++i) {
            new (grown + i) T(std::move(data()[i]));
            data()[i].~T();
        }
        free_heap();
        heap_ = grown;
        capacity_ = static_cast<std::uint32_t>(n);
    }
    void free_heap() {
        if (on_heap()) ::operator delete(heap_, std::align_val_t(alignof(T)));
        capacity_ = N;
    }
    void release() {
        clear();
        free_heap();
    }
    // Of an empty vector without heap memory.
    void take(SmallVec& o) {
        if (o.on_heap()) {
            heap_ = o.heap_;
            capacity_ = std::exchange(o.capacity_, static_cast<std::uint32_t>(N));
            size_ = std::exchange(o.size_, 0u);
        } else {
            for (T& v : o)
                push_back(std::move(v));
            o.clear();
        }
    }

    std::uint32_t size_ = 0, capacity_ = N;
    union {
        T* heap_;  // where capacity_ > N
        alignas(T) unsigned char inline_[N * sizeof(T)];
    };
};

}  // namespace pippin
