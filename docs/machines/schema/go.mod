module github.com/berth-ml/berth/docs/machines/schema

go 1.26.0

require (
	github.com/kubeflow/mpi-operator v0.6.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.2
	go.yaml.in/yaml/v3 v3.0.6
)

require golang.org/x/text v0.17.0 // indirect
