# The product's image: static binaries and nothing else. make build puts them into bin/.
FROM scratch
COPY bin/holdfast bin/holdfast-cni /
USER 65532:65532
ENTRYPOINT ["/holdfast"]
