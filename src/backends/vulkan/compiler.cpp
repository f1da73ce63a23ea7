#include "backends/vulkan/compiler.h"

#include <mutex>

#include <fmt/format.h>
#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>

#include "pippin/error.h"

namespace pippin::vulkan {

std::vector<std::uint32_t> compile_glsl(const std::string& source) {
    // Started once and never stopped: its tables of built-in functions are costly.
    static std::once_flag started;
    std::call_once(started, [] { glslang::InitializeProcess(); });
    glslang::TShader shader(EShLangCompute);
    const char* text = source.c_str();
    shader.setStrings(&text, 1);
    shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
    shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_2);
    shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_5);
    const auto messages = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);
    const auto fail = [&](const char* log) {
        throw Error(fmt::format("a gpu kernel does not compile: {}\n{}", log, source));
    };
    if (!shader.parse(GetDefaultResources(), 460, false, messages)) fail(shader.getInfoLog());
    glslang::TProgram program;
    program.addShader(&shader);
    if (!program.link(messages)) fail(program.getInfoLog());
    std::vector<std::uint32_t> spirv;
    glslang::SpvOptions options;
    options.disableOptimizer = true;  // drivers do that themselves
    options.stripDebugInfo = true;
    glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), spirv, &options);
    return spirv;
}

}  // namespace pippin::vulkan
