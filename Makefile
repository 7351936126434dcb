# Everything here is a plain go command; the file only gives them short names.
.PHONY: check opencl limits predictions test attack fuzz race bench peers generate-check

check: ; .ci/run $(FLAGS) && $(MAKE) limits opencl
opencl: ; TEST_ALL=1 go test ./engine/device/gpu/cl -timeout 1h && TEST_ALL=1 go test ./engine/device/gpu/gen -sweep -timeout 1h
predictions: ; TEST_PREDICTION="mlp cnn gpt-nano gpt-small gpt2" go test -p 1 . ./bench ./executor/train -run 'TestPredicted(Step|Training|Buckets)' -v -count=1 -timeout 1h
limits: ; t=$$(mktemp -d) && trap 'rm -r "$$t"' EXIT && go build -o "$$t" ./cmd/trainer && .ci/limits "$$t/trainer" gpt2 789 700+1024 floor
test:  ; go test ./... # TEST_ALL=1 makes the longest tests whole, as in .ci/run
attack: ; go test ./cmd/trainer/command -run TestAttack -attack -count=1 -timeout 1h
fuzz:  ; .ci/fuzz $(TIME)
race:  ; CGO_ENABLED=1 go test -race -short . ./executor/... ./engine/device/... ./residency ./datasets ./checkpoint
bench: ; go run ./cmd/trainer bench
peers: ; go -C bench/peers run .

# The committed assembly is what its generator writes.
generate-check:
	go generate ./engine/device/cpu/kernels/asm
	git diff --exit-code -- engine/device/cpu/kernels
