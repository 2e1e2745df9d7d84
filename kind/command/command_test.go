package command

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestTheWholeGroupEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := Run(New(ctx, "sh", "-c", "sleep 60 & wait")); err == nil {
		t.Error("no error")
	}
	if time.Since(began) > 10*time.Second {
		t.Error("a grandchild kept it waiting")
	}
}

func TestTheErrorEndsWithWhatWasSaid(t *testing.T) {
	err := Run(New(t.Context(), "sh", "-c", "echo out; echo no room >&2; exit 3"))
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3: no room") {
		t.Errorf("err = %v", err)
	}
}
