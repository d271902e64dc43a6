# Read at the end of project(ggml) of llama.cpp (CMAKE_PROJECT_ggml_INCLUDE, see scripts/peers): options of ggml alone.
if(PEERS_AMX)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/amx-barriers.h>")
else()
  add_compile_options(-U__AMX_INT8__) # what ggml asks for; the rest of the CPU's instructions stay
endif()
