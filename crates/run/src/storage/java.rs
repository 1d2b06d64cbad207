//! The Java virtual machine that makes writes. Must not know whether it exists, or how it is run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How to start a Java virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Java {
    /// The program and its arguments. If they contain a class path, the class `SyncWriter` is
    /// loaded from it, as Android's runtime requires. Otherwise the source file is passed.
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
