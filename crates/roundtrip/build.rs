//! Omits unwind tables from the binary for devices (see `unwind-tables.ld`).

fn main() {
    let script = "unwind-tables.ld";
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-check-cfg=cfg(no_unwind_tables)");
    let is = |name, value| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_ENV", "musl") && is("PROFILE", "release") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-T{folder}/{script}");
        println!("cargo:rustc-cfg=no_unwind_tables");
    }
}
