#include <pippin/pippin.h>

#include <iostream>

int main() {
    auto a = pippin::ones({2, 3});
    std::cout << (a + a).sum().item<float>() << "\n";
}
