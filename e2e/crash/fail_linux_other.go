//go:build !amd64

package crash

import "errors"

// CanFail reports whether calls can be made to fail on this architecture.
const CanFail = false

func skipCall(int) error { return errors.ErrUnsupported }

func setResult(int, int64) error { return errors.ErrUnsupported }
