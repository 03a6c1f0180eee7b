# Images for those who build by hand; a release builds its own with ko. Each binary is a target, the controller is the
# default:
#
#   docker build --build-arg VERSION=v1.2.3 -t cloudstack-ccm:v1.2.3 .
#   docker build --target csccm -t csccm:dev .
#   docker build --target cloudstack-sim -t cloudstack-sim:dev .

# The only image from elsewhere, by the digest that Docker's record of its official images has for the tag (docker-library/repo-info,
# repos/golang/remote/1.26.8.md); Dependabot keeps it fresh. Nothing of it is in the images below.
FROM --platform=$BUILDPLATFORM golang:1.26.8@sha256:9d2f36f06329b2a141b9db99ffa32765cf695ee57b813ca29e245e8670bcbfff AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# First, because it runs on the machine that builds: everything below is for the target.
RUN mkdir -p /rootfs/etc/ssl/certs && mkdir -m 1777 /rootfs/tmp && \
    go run ./release/certificates /rootfs/etc/ssl/certs/ca-certificates.crt
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ARG VERSION=v0.0.0-dev
ARG COMMIT=unknown
ARG DATE=unknown
ENV CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH}
RUN for binary in cloudstack-ccm csccm cloudstack-sim; do \
      go build -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags "-s -w -buildid= \
        -X github.com/csccm/csccm/pkg/version.Version=${VERSION} \
        -X github.com/csccm/csccm/pkg/version.Commit=${COMMIT} \
        -X github.com/csccm/csccm/pkg/version.Date=${DATE}" \
        -o /out/${binary} ./cmd/${binary} || exit 1; \
    done

FROM scratch AS base
ARG VERSION=v0.0.0-dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.url="https://github.com/csccm/csccm" \
      org.opencontainers.image.source="https://github.com/csccm/csccm" \
      org.opencontainers.image.documentation="https://github.com/csccm/csccm/tree/main/docs" \
      org.opencontainers.image.vendor="The csccm Authors" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /rootfs/ /
ENV PATH=/ HOME=/tmp
USER 65532:65532
WORKDIR /

FROM base AS csccm
LABEL org.opencontainers.image.title="csccm" \
      org.opencontainers.image.description="Installs and checks cloudstack-ccm"
COPY --from=build /out/csccm /csccm
ENTRYPOINT ["/csccm"]

FROM base AS cloudstack-sim
LABEL org.opencontainers.image.title="cloudstack-sim" \
      org.opencontainers.image.description="A simulated Apache CloudStack management server, for tests"
COPY --from=build /out/cloudstack-sim /cloudstack-sim
EXPOSE 8080
ENTRYPOINT ["/cloudstack-sim"]
CMD ["--listen", "0.0.0.0:8080"]

FROM base AS cloudstack-ccm
LABEL org.opencontainers.image.title="cloudstack-ccm" \
      org.opencontainers.image.description="Cloud controller manager for Apache CloudStack"
COPY --from=build /out/cloudstack-ccm /cloudstack-ccm
EXPOSE 10258
ENTRYPOINT ["/cloudstack-ccm"]
