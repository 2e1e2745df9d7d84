package chaining

import (
	"strconv"
	"strings"
)

// decimal is the exact value of a JSON number: (-)digits × 10^exp, the digits without zeros at either end. Zero has no
// digits, and no sign: -0 and 0 are one value.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// toDecimal takes a number as JSON writes it. float64 would be shorter, and would call 12345678901234567890 and
// 12345678901234567891 equal.
func toDecimal(number string) decimal {
	var d decimal
	number, d.negative = strings.CutPrefix(number, "-")
	if mantissa, exp, found := cutExponent(number); found {
		d.exp, _ = strconv.Atoi(exp) // at most nine digits, see hugeExponent
		number = mantissa
	}
	whole, fraction, _ := strings.Cut(number, ".")
	d.exp -= len(fraction)
	padded := whole + fraction
	d.digits = strings.TrimRight(padded, "0")
	d.exp += len(padded) - len(d.digits)
	d.digits = strings.TrimLeft(d.digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	return d
}

// hugeExponent keeps exponents within an int. Such a number is out of range or zero for every other reader anyway.
func hugeExponent(number string) bool {
	_, exp, found := cutExponent(number)
	return found && len(strings.TrimLeft(exp, "+-0")) > 9
}

func cutExponent(number string) (mantissa, exp string, found bool) {
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		return number[:i], number[i+1:], true
	}
	return number, "", false
}

// fitsFloat says whether encoding/json, and so libcni, can hold the number at all, even if not exactly.
func fitsFloat(number string) bool {
	if len(number) < 300 && !strings.ContainsAny(number, "eE") {
		return true // the largest float64 has 309 digits
	}
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}
