//! Passes the hashes of the report page's styles and scripts to the compiler. The page's
//! Content-Security-Policy allows them by hash.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// Files of the page, each with the variable for its hash.
const FILES: [(&str, &str); 4] = [
    ("report.css", "STYLE_HASH"),
    ("uplot/uPlot.min.css", "LIBRARY_STYLE_HASH"),
    ("uplot/uPlot.iife.min.js", "LIBRARY_HASH"),
    ("report.js", "SCRIPT_HASH"),
];

fn main() {
    let web = Path::new("../../web");
    for (name, variable) in FILES {
        let path = web.join(name);
        let text =
            std::fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        println!("cargo::rerun-if-changed={}", path.display());
        println!("cargo::rustc-env={variable}=sha256-{}", STANDARD.encode(Sha256::digest(text)));
    }
}
