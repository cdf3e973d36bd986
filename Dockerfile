# docker build -t llmgov .
# The commit in .git tells the version; without it, say --build-arg VERSION=v1.2.3.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION TARGETOS TARGETARCH
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build

# One file and the roots of TLS: time zones are in the program, and it writes nowhere but where it is told to.
FROM scratch
LABEL org.opencontainers.image.source=https://github.com/llmgov/llmgov org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/llmgov /
WORKDIR /etc/llmgov
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/llmgov"]
CMD ["serve"]
