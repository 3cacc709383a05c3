# Finds nvcc and says where its headers and libraries lie, before CUDA is enabled as a language.
#
# In order: CMAKE_CUDA_COMPILER or CUDACXX where somebody set it; the compiler from PyPI beside the Python that
# builds (packages nvidia-cuda-nvcc and friends); nvcc on the PATH. The one from PyPI keeps its libraries in `lib`,
# where neither CMake's compiler check nor FindCUDAToolkit looks, so FindCUDAToolkit is not used.
#
# Sets CMAKE_CUDA_COMPILER, CMAKE_CUDA_FLAGS and LINKWISE_CUDA_ROOT.

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "import pathlib, nvidia; print(next((str(n) for p in nvidia.__path__ for n in pathlib.Path(p).glob('cu13/bin/nvcc')), ''))"
    OUTPUT_VARIABLE nvcc_from_pypi
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(nvcc_from_pypi)
    set(CMAKE_CUDA_COMPILER "${nvcc_from_pypi}")
  else()
    find_program(nvcc_on_path nvcc)
    if(NOT nvcc_on_path)
      message(FATAL_ERROR "There is no nvcc. Install it with: pip install 'cuda-toolkit[nvcc,cccl,crt,cudart,nvvm,nvml,nvtx]==13.0.*'")
    endif()
    set(CMAKE_CUDA_COMPILER "${nvcc_on_path}")
  endif()
elseif(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "$ENV{CUDACXX}")
endif()

file(REAL_PATH "${CMAKE_CUDA_COMPILER}" nvcc_path)
cmake_path(GET nvcc_path PARENT_PATH nvcc_folder)
cmake_path(GET nvcc_folder PARENT_PATH LINKWISE_CUDA_ROOT)
foreach(folder lib lib64 targets/x86_64-linux/lib)
  if(EXISTS "${LINKWISE_CUDA_ROOT}/${folder}/libcudart_static.a")
    set(LINKWISE_CUDA_LIBRARIES "${LINKWISE_CUDA_ROOT}/${folder}")
  endif()
endforeach()
if(NOT LINKWISE_CUDA_LIBRARIES)
  message(FATAL_ERROR "${LINKWISE_CUDA_ROOT} has no libcudart_static.a; install nvidia-cuda-runtime beside nvcc")
endif()
foreach(header nvml.h nvtx3/nvToolsExt.h)
  if(NOT EXISTS "${LINKWISE_CUDA_ROOT}/include/${header}")
    message(FATAL_ERROR "${LINKWISE_CUDA_ROOT} has no ${header}; install it: pip install 'cuda-toolkit[nvml,nvtx]==13.0.*', or CUDA's packages cuda-nvml-dev and cuda-nvtx")
  endif()
endforeach()
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -L${LINKWISE_CUDA_LIBRARIES}")
message(STATUS "nvcc: ${nvcc_path}")
