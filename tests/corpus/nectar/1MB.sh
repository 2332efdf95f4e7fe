nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-put    -containers 100 -count 1000000 -size 1048576 -csv bench1MBput1.csv bench-ec-mb-1-         2>&1 | tee big-test-ec-mb-put-1-
sleep 300
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-put    -containers 100 -count 1000000 -size 1048576 -csv bench1MBput2.csv bench-ec-mb-2-         2>&1 | tee big-test-ec-mb-put-2-
sleep 900
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-get    -containers 100 -count 1000000 -iterations 3 -csv bench1MBget1.csv bench-ec-mb-1-         2>&1 | tee big-test-ec-mb-get-1-
sleep 300
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-get    -containers 100 -count 1000000 -iterations 3 -csv bench1MBget2.csv bench-ec-mb-2-         2>&1 | tee big-test-ec-mb-get-2-
sleep 900
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-delete -containers 100 -count 1000000               -csv bench1MBdelete1.csv bench-ec-mb-1-      2>&1 | tee big-test-ec-mb-delete-1-
sleep 300
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-delete -containers 100 -count 1000000               -csv bench1MBdelete2.csv bench-ec-mb-2-      2>&1 | tee big-test-ec-mb-delete-2-
sleep 900
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 50  bench-mixed  -containers 100    -size 1048576 -time 2h    -csv bench1MBmixed1.csv bench-ec-mb-mixed-2- 2>&1 | tee big-test-ec-mb-mixed-1-
