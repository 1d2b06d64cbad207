//! Generates tonic's client and server of the echo service, as it does for everyone, but without a
//! `.proto` file: that would take a compiler of its own.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let echo = Method::builder()
        .name("echo")
        .route_name("Echo")
        .input_type("crate::grpc::Payload")
        .output_type("crate::grpc::Payload")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let service = Service::builder().name("Echo").package("roundtrip").method(echo).build();
    Builder::new().compile(&[service]);
}
