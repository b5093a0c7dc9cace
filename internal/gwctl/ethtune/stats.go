package ethtune

import "math"

// interval is what the differences of pairs say of the difference there is.
type interval struct{ mean, low, high float64 }

// quantiles are those of Student's t for 97.5 %, by degrees of freedom from 1.
var quantiles = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// paired returns the mean of 2 to 31 differences and its 95 % interval.
func paired(differences []float64) interval {
	n := float64(len(differences))
	sum := 0.0
	for _, d := range differences {
		sum += d
	}
	mean, squares := sum/n, 0.0
	for _, d := range differences {
		squares += (d - mean) * (d - mean)
	}
	half := quantiles[len(differences)-2] * math.Sqrt(squares/(n-1)/n)
	return interval{mean, mean - half, mean + half}
}
