//! Benchmarks of code that must stay fast, under `benches`: `cargo bench -p roundtrip-benchmarks`.
//!
//! Compare results only on the same machine: `cargo bench -p roundtrip-benchmarks --
//! --save-baseline NAME` stores results, and `--baseline NAME` compares later results with them,
//! with an interval. `roundtrip ipc baseline` measures the cost of calls between processes.
