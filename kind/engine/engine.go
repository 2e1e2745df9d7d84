// Package engine finds the container engine that kind uses: the Docker that is running or, where there is none and we are
// root, one of our own that leaves no trace on the machine.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-cni/holdfast/kind/command"
)

// Engine is a container engine that answers.
type Engine struct {
	// Host is its DOCKER_HOST; empty where the docker command finds it by itself.
	Host string
	// Address is where published ports can be reached.
	Address string
	// Own is the folder of an engine that we started, else empty.
	Own string
}

// Find returns the engine to use, and starts one in folder if none runs.
func Find(ctx context.Context, folder string) (*Engine, error) {
	if own := running(folder); own != nil {
		return own, nil
	}
	err := errors.New("the docker command is missing")
	if _, missing := exec.LookPath("docker"); missing == nil {
		found := &Engine{Address: "127.0.0.1"}
		if err = found.answers(ctx); err == nil {
			return found, nil
		}
	}
	switch {
	case strings.Contains(err.Error(), "permission denied"):
		return nil, errors.New("Docker runs but does not let you in: add yourself to the group docker, or use sudo")
	case os.Getenv("DOCKER_HOST") != "":
		return nil, fmt.Errorf("no engine answers at DOCKER_HOST=%s: start it, or unset DOCKER_HOST", os.Getenv("DOCKER_HOST"))
	case os.Geteuid() != 0:
		return nil, errors.New("no container engine answers: start Docker, or run this as root, which starts one of its own")
	}
	return start(ctx, folder)
}

// Running returns the engine that a cluster made earlier runs in, without starting one; nil if none answers.
func Running(ctx context.Context, folder string) *Engine {
	if own := running(folder); own != nil {
		return own
	}
	found := &Engine{Address: "127.0.0.1"}
	if _, err := exec.LookPath("docker"); err != nil || found.answers(ctx) != nil {
		return nil
	}
	return found
}

func (e *Engine) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := e.Docker(ctx, "version", "--format", "{{.Server.Version}}")
	return err
}

// Command returns a command that uses this engine.
func (e *Engine) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := command.New(ctx, name, args...)
	cmd.Env = append(os.Environ(), "KIND_EXPERIMENTAL_PROVIDER=docker")
	if e.Host != "" {
		cmd.Env = append(cmd.Env, "DOCKER_HOST="+e.Host)
	}
	return cmd
}

// Docker runs the docker command and returns what it printed.
func (e *Engine) Docker(ctx context.Context, args ...string) (string, error) {
	return command.Output(e.Command(ctx, "docker", args...))
}

// Clear removes what a run that was killed left in an engine of our own; nobody else's containers are there.
func (e *Engine) clear(ctx context.Context) error {
	ids, err := e.Docker(ctx, "ps", "--all", "--quiet")
	if err != nil {
		return err
	}
	if ids != "" {
		if _, err := e.Docker(ctx, append([]string{"rm", "--force", "--volumes"}, strings.Fields(ids)...)...); err != nil {
			return err
		}
	}
	for _, kind := range []string{"network", "volume"} {
		if _, err := e.Docker(ctx, kind, "prune", "--force"); err != nil {
			return err
		}
	}
	return nil
}
