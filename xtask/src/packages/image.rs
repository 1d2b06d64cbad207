//! An image for containers in the layout of the Open Container Initiative (image-spec 1.0): one
//! layer with the program, which is also the image's entry point.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Machine, hex, tar, version};
use crate::shell::target_dir;

/// Writes the image as an archive, which `podman load` and `skopeo copy oci-archive:…` read.
pub(super) fn write(machine: Machine, program: &Path, file: &Path) -> Result<()> {
    let work = target_dir().join("packages").join(format!("image-{}", machine.arch));
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("remove {}", work.display()))?;
    }
    let (layer, layout) = (work.join("layer"), work.join("layout"));
    let installed = layer.join("usr/bin/roundtrip");
    fs::create_dir_all(layer.join("usr/bin")).context("create the layer")?;
    fs::create_dir_all(layout.join("blobs/sha256")).context("create the layout")?;
    fs::copy(program, &installed).context("copy the program")?;
    fs::set_permissions(&installed, fs::Permissions::from_mode(0o755)).context("make it executable")?;
    let packed = work.join("layer.tar");
    tar(&layer, &packed)?;
    let layer = fs::read(&packed).context("read the layer")?;
    let (architecture, variant) = machine.image;
    let mut config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": { "Entrypoint": ["/usr/bin/roundtrip"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hex(&layer))] },
    });
    if let Some(variant) = variant {
        config["variant"] = json!(variant);
    }
    let blob = |kind: &str, bytes: &[u8]| -> Result<Value> {
        let sum = hex(bytes);
        fs::write(layout.join("blobs/sha256").join(&sum), bytes).context("write a part of the image")?;
        let media = format!("application/vnd.oci.image.{kind}");
        Ok(json!({ "mediaType": media, "digest": format!("sha256:{sum}"), "size": bytes.len() }))
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", config.to_string().as_bytes())?,
        "layers": [blob("layer.v1.tar", &layer)?],
    });
    let mut manifest = blob("manifest.v1+json", manifest.to_string().as_bytes())?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": version()? });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(layout.join("index.json"), index.to_string()).context("write the index")?;
    fs::write(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())
        .context("write the layout's version")?;
    tar(&layout, file)
}
