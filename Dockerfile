# docker build -t llmgov .
# The commit in .git tells the version; without it, say --build-arg VERSION=v1.2.3.
FROM --platform=$BUILDPLATFORM golang:1.26.8@sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION TARGETOS TARGETARCH
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build
# Folders that volumes take their owner from, so that nothing needs to run as root.
RUN mkdir -p /image/var/lib/llmgov /image/monitoring/grafana/dashboards /image/monitoring/grafana/provisioning/dashboards /image/monitoring/prometheus

# One file, the roots of TLS and licences: time zones are in the program, and it writes nowhere but where it is told to.
FROM scratch
LABEL org.opencontainers.image.source=https://github.com/llmgov/llmgov org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /image/ /
COPY --from=build /src/LICENSE /src/THIRD_PARTY_NOTICES /
COPY --from=build /src/bin/llmgov /
WORKDIR /etc/llmgov
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/llmgov"]
CMD ["serve"]
