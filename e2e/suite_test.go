//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"github.com/holdfast-cni/holdfast/e2e/lab"
)

// Labels of the specs: smoke is enough for a first run, ci for every change, full for a campaign.
const (
	smoke = "smoke"
	ci    = "ci"
	full  = "full"
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(3 * time.Minute)
	SetDefaultEventuallyPollingInterval(500 * time.Millisecond) // a look at a node runs some processes there
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "e2e")
}

// makeLab makes a cluster for a container of specs and collects what a failed spec leaves behind.
func makeLab(ctx context.Context, o lab.Options) *lab.Lab {
	GinkgoHelper()
	o.Out = GinkgoWriter
	began := time.Now()
	l, err := lab.Make(ctx, o)
	labs = append(labs, l)
	DeferCleanup(func(ctx context.Context) {
		if memory, err := l.Memory(ctx); err == nil {
			report("cluster %s, flags %v: memory of its nodes at the end: %s", o.Name, o.Flags, memory)
		}
		if os.Getenv("E2E_KEEP") != "" {
			GinkgoWriter.Printf("cluster %s is kept; make kind-down NAME=%s removes it\n", o.Name, o.Name)
			return
		}
		Expect(l.Down(ctx)).To(Succeed())
	})
	Expect(err).NotTo(HaveOccurred())
	report("cluster %s with NET=%s, flags %v: made in %s", o.Name, o.Net, o.Flags, time.Since(began).Round(time.Second))
	return l
}

var labs []*lab.Lab

// What a container of specs cleans up at its end is left where an interrupt comes in its AfterEach.
var _ = AfterSuite(func(ctx SpecContext) {
	for _, l := range labs {
		if os.Getenv("E2E_KEEP") == "" {
			Expect(l.Down(ctx)).To(Succeed())
		}
	}
}, NodeTimeout(10*time.Minute))

// foreign is the kubeconfig of a cluster that was not made here, or "". Then only the specs that need no more are there.
var foreign = os.Getenv("E2E_KUBECONFIG")

// describe adds a container of specs on clusters made here.
func describe(text string, args ...any) bool {
	return foreign != "" || Describe(text, args...)
}

// collectOnFailure keeps logs, CNI directories and states of the cluster where a spec failed.
func collectOnFailure(ctx context.Context, l *lab.Lab) {
	if !CurrentSpecReport().Failed() || l == nil || l.Kube == nil {
		return
	}
	folder := os.Getenv("E2E_ARTIFACTS")
	if folder == "" {
		folder = filepath.Join(os.TempDir(), "holdfast-e2e")
	}
	folder = filepath.Join(folder, time.Now().Format("20060102-150405"))
	Expect(l.Collect(ctx, folder)).To(Succeed())
	GinkgoWriter.Println("collected in", folder)
	fmt.Fprintln(os.Stderr, "e2e: a spec failed; logs and states are in", folder)
}

var reported []string

// report is a line of the closing table: a figure, never an assertion.
func report(format string, args ...any) {
	reported = append(reported, fmt.Sprintf(format, args...))
}

var _ = ReportAfterSuite("table", func(r Report) {
	fmt.Printf("\n%-8s %8s  %s\n", "state", "seconds", "spec")
	for _, s := range r.SpecReports {
		if s.LeafNodeType == types.NodeTypeIt && s.State != types.SpecStateSkipped {
			fmt.Printf("%-8s %8.1f  %s\n", s.State, s.RunTime.Seconds(), s.FullText())
			if s.Failed() {
				fmt.Printf("%.800s\n", s.FailureMessage()) // what was printed before is cut off by those who show a part
			}
		}
	}
	for _, line := range reported {
		fmt.Println("figure:", line)
	}
	count := func(states types.SpecState) int {
		return r.SpecReports.WithLeafNodeType(types.NodeTypeIt).CountWithState(states)
	}
	fmt.Printf("\n%d passed, %d failed\n", count(types.SpecStatePassed), count(types.SpecStateFailureStates))
})
