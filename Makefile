# Everything here is a plain go command; the file only gives them short names.
.PHONY: check test race bench

check: ; .ci/run
test:  ; go test ./...
race:  ; CGO_ENABLED=1 go test -race -short . ./engine/device/... ./residency ./executor/... ./datasets ./checkpoint
bench: ; go run ./cmd/trainer bench
