# The same image as `make image` assembles without an engine, for those who prefer one:
#   docker buildx build --platform linux/amd64,linux/arm64 -t example.com/coder-k8s:v1 --build-arg VERSION=v1 .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION=v0.1.0-dev COMMIT=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    GOOS=$TARGETOS GOARCH=$TARGETARCH make build BINARY=/coder-k8s VERSION=$VERSION COMMIT=$COMMIT

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /coder-k8s /coder-k8s
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/coder-k8s"]
