//go:build !linux

package agent

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// Run fails: pods are locked by Linux alone.
func Run(context.Context, *rest.Config, Options, logr.Logger) error {
	return errors.New("the agent runs on Linux alone")
}
