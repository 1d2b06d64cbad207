//! Which Java virtual machine writes are made on. Must not know whether it is there, or how it is
//! run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How to start a Java virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Java {
    /// The program and its arguments. With a class path among them the class `SyncWriter` is run
    /// from there, as Android's runtime needs it; else the source is handed over.
    pub command: Vec<String>,
}

impl Default for Java {
    /// `$JAVA_HOME/bin/java`, else `java`.
    fn default() -> Self {
        let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
        let program = home.filter(|path| path.exists()).unwrap_or_else(|| "java".into());
        Self { command: vec![program.to_string_lossy().into_owned()] }
    }
}
