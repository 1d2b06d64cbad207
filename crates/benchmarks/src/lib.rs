//! Benchmarks of what must stay quick, under `benches`: `cargo bench -p benchmarks`.
//!
//! They compare within one machine: `cargo bench -p benchmarks -- --save-baseline NAME` keeps
//! figures, and `--baseline NAME` holds the next ones against them, with an interval. What a call
//! costs across processes `roundtrip ipc baseline` measures.
