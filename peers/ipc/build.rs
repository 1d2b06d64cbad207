//! Generates tonic's client and server of the echo service, without a `.proto` file, which would
//! need a separate compiler.

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
