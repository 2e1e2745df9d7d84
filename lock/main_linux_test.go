package lock

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// helpEnv names what this binary does instead of testing, run as another user or in other namespaces.
const helpEnv = "LOCK_TEST_HELPER"

func TestMain(m *testing.M) {
	job, isHelper := os.LookupEnv(helpEnv)
	if !isHelper {
		os.Exit(m.Run())
	}
	answers := helpers[job]()
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		os.Exit(1)
	}
}

// helpers each tell what came of what they tried.
var helpers = map[string]func() map[string]string{
	"unprivileged": unprivileged,
	"host":         openHost,
	"clock":        renewElsewhen,
	"renew":        renewConfined,
	"hold":         hold,
	"closed input": closedInput,
	"connect":      connect,
}

// told is an error as a helper tells it.
func told(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "not permitted"
	case errors.Is(err, ErrHostNamespace):
		return "host"
	case errors.Is(err, ErrExpired):
		return "expired"
	}
	return err.Error()
}

// help runs a helper in the pod's network namespace, since a child is born into its thread's.
func (p *pod) help(t *testing.T, job string, attr *syscall.SysProcAttr, env ...string) map[string]string {
	t.Helper()
	return help(t, p.do, job, attr, env...)
}

// help runs a helper where in runs a function.
func help(t *testing.T, in func(func()), job string, attr *syscall.SysProcAttr, env ...string) map[string]string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append([]string{helpEnv + "=" + job}, env...)
	cmd.SysProcAttr = attr
	var stderr strings.Builder
	cmd.Stderr = &stderr
	var out []byte
	var err error
	in(func() { out, err = cmd.Output() })
	if err != nil {
		t.Fatalf("helper %s: %v\n%s", job, err, stderr.String())
	}
	var answers map[string]string
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatalf("helper %s: %v in %q", job, err, out)
	}
	return answers
}

func lockedPod(t testing.TB) (*pod, Record) {
	t.Helper()
	p := newPod(t)
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	record, err := p.Apply(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p, record
}
