// Package pins is temporary: it keeps go mod tidy from dropping modules while the packages that use them are written.
package pins

import (
	_ "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	_ "github.com/cilium/cilium/pkg/option/resolver"
	_ "github.com/cilium/cilium/plugins/cilium-cni/types"
	_ "github.com/containernetworking/cni/libcni"
	_ "github.com/go-json-experiment/json/jsontext"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/spf13/cobra"
	_ "github.com/spf13/cobra/doc"
	_ "github.com/spf13/cast"
	_ "github.com/vishvananda/netlink"
	_ "helm.sh/helm/v4/pkg/action"
	_ "helm.sh/helm/v4/pkg/chart/loader"
	_ "helm.sh/helm/v4/pkg/engine"
	_ "helm.sh/helm/v4/pkg/cli"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/client-go/kubernetes"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "sigs.k8s.io/yaml"
	_ "golang.org/x/time/rate"
	_ "golang.org/x/sync/errgroup"
)
