#!/bin/bash
export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3
vllm serve /data/models/demo-32b \
    --tensor-parallel-size 8 \
    --max-model-len 32768 \
    --gpu-memory-utilization 90 \
    --quantization_mode fp8 \
    --additional-config '{"enable_cpu_binding": True}'
