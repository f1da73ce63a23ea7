// A vector that keeps its first N elements in place: nodes are made by the thousand each step.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <utility>

namespace pippin {

template <class T, std::size_t N>
class SmallVec {
  public:
    SmallVec() = default;
    SmallVec(std::initializer_list<T> items) {
        reserve(items.size());
        for (const T& v : items)
            push_back(v);
    }
    template <class It>
    SmallVec(It first, It last) {
        for (; first != last; ++first)
            push_back(*first);
    }
    SmallVec(const SmallVec& o) {
        reserve(o.size_);
        for (const T& v : o)
            push_back(v);
    }
    SmallVec(SmallVec&& o) noexcept { take(o); }
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
        if (size_ == capacity_) reserve(capacity_ * 2);
        new (data() + size_) T(std::move(v));
        ++size_;
    }
    void reserve(std::size_t n) {
        if (n <= capacity_) return;
        T* grown = static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(alignof(T))));
        for (std::size_t i = 0; i < size_; ++i) {
            new (grown + i) T(std::move(data()[i]));
            data()[i].~T();
        }
        free_heap();
        heap_ = grown;
        capacity_ = n;
    }
    void clear() {
        for (T& v : *this)
            v.~T();
        size_ = 0;
    }
    T* data() { return heap_ ? heap_ : std::launder(reinterpret_cast<T*>(inline_)); }
    const T* data() const {
        return heap_ ? heap_ : std::launder(reinterpret_cast<const T*>(inline_));
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
    void free_heap() {
        if (heap_) ::operator delete(heap_, std::align_val_t(alignof(T)));
        heap_ = nullptr;
    }
    void release() {
        clear();
        free_heap();
        capacity_ = N;
    }
    void take(SmallVec& o) {
        if (o.heap_) {
            heap_ = std::exchange(o.heap_, nullptr);
            capacity_ = std::exchange(o.capacity_, N);
            size_ = std::exchange(o.size_, 0);
        } else {
            for (T& v : o)
                push_back(std::move(v));
            o.clear();
        }
    }

    T* heap_ = nullptr;
    std::size_t size_ = 0, capacity_ = N;
    alignas(T) unsigned char inline_[N * sizeof(T)];
};

}  // namespace pippin
