//! Benchmarks of code that must stay fast, under `benches`: `cargo bench -p benchmarks`.
//!
//! They only compare within one machine: `cargo bench -p benchmarks -- --save-baseline NAME` stores
//! figures, and `--baseline NAME` compares later ones with them, with an interval. The cost of
//! calls between processes is measured by `roundtrip ipc baseline`.
